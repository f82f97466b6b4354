// An LSTM over T steps with its state in registers: gates in the order i, o, f, g, 16 wide.
// Program i: four sequences. A sequence stops at its length: its state stays and its output is 0.
builtin.module {
  tile.kernel @lstm_steps attributes {symbols = ["B", "T", "I"], grid = ["ceildiv(B, 4)"], access = ["read", "read", "read", "read", "read", "write", "write", "write"]} {
  ^bb0(%x: memref<?x?x?xf32>, %w: memref<?x64xf32>, %r: memref<16x64xf32>, %b: memref<64xf32>, %lengths: memref<?xi32>, %y: memref<?x?x16xf32>, %hn: memref<?x16xf32>, %cn: memref<?x16xf32>, %B: index, %T: index, %I: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c48 = arith.constant 48 : index
    %p = tile.program_id {dim = 0 : i64}
    %n = arith.muli %p, %c4 : index
    %length = tile.load %lengths[%n] {shape = array<i64: 4>} : memref<?xi32>[index] -> vector<4xi32>
    %lengthb = tile.broadcast %length {dims = array<i64: 0>} : (vector<4xi32>) -> vector<4x16xi32>
    %zero = arith.constant dense<0.000000e+00> : vector<4x16xf32>
    %one = arith.constant dense<1.000000e+00> : vector<4x16xf32>
    %hT, %cT = scf.for %t = %c0 to %T step %c1 iter_args(%h = %zero, %c = %zero) -> (vector<4x16xf32>, vector<4x16xf32>) {
      %i0 = tile.load %b[%c0] {shape = array<i64: 16>, in_bounds = array<i64: 0>} : memref<64xf32>[index] -> vector<16xf32>
      %i1 = tile.broadcast %i0 {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
      %iw = tile.load %r[%c0, %c0] {shape = array<i64: 16, 16>, in_bounds = array<i64: 0, 1>} : memref<16x64xf32>[index, index] -> vector<16x16xf32>
      %i2 = tile.dot %h, %iw, %i1 {contract = [[1 : i64, 0 : i64]]} : (vector<4x16xf32>, vector<16x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      %o0 = tile.load %b[%c16] {shape = array<i64: 16>, in_bounds = array<i64: 0>} : memref<64xf32>[index] -> vector<16xf32>
      %o1 = tile.broadcast %o0 {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
      %ow = tile.load %r[%c0, %c16] {shape = array<i64: 16, 16>, in_bounds = array<i64: 0, 1>} : memref<16x64xf32>[index, index] -> vector<16x16xf32>
      %o2 = tile.dot %h, %ow, %o1 {contract = [[1 : i64, 0 : i64]]} : (vector<4x16xf32>, vector<16x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      %f0 = tile.load %b[%c32] {shape = array<i64: 16>, in_bounds = array<i64: 0>} : memref<64xf32>[index] -> vector<16xf32>
      %f1 = tile.broadcast %f0 {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
      %fw = tile.load %r[%c0, %c32] {shape = array<i64: 16, 16>, in_bounds = array<i64: 0, 1>} : memref<16x64xf32>[index, index] -> vector<16x16xf32>
      %f2 = tile.dot %h, %fw, %f1 {contract = [[1 : i64, 0 : i64]]} : (vector<4x16xf32>, vector<16x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      %g0 = tile.load %b[%c48] {shape = array<i64: 16>, in_bounds = array<i64: 0>} : memref<64xf32>[index] -> vector<16xf32>
      %g1 = tile.broadcast %g0 {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
      %gw = tile.load %r[%c0, %c48] {shape = array<i64: 16, 16>, in_bounds = array<i64: 0, 1>} : memref<16x64xf32>[index, index] -> vector<16x16xf32>
      %g2 = tile.dot %h, %gw, %g1 {contract = [[1 : i64, 0 : i64]]} : (vector<4x16xf32>, vector<16x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      %iz, %oz, %fz, %gz = scf.for %k = %c0 to %I step %c8 iter_args(%ia = %i2, %oa = %o2, %fa = %f2, %ga = %g2) -> (vector<4x16xf32>, vector<4x16xf32>, vector<4x16xf32>, vector<4x16xf32>) {
        %xt = tile.load %x[%t, %n, %k] {shape = array<i64: 1, 4, 8>, in_bounds = array<i64: 0>} : memref<?x?x?xf32>[index, index, index] -> vector<4x8xf32>
        %wi = tile.load %w[%k, %c0] {shape = array<i64: 8, 16>, in_bounds = array<i64: 1>} : memref<?x64xf32>[index, index] -> vector<8x16xf32>
        %wo = tile.load %w[%k, %c16] {shape = array<i64: 8, 16>, in_bounds = array<i64: 1>} : memref<?x64xf32>[index, index] -> vector<8x16xf32>
        %wf = tile.load %w[%k, %c32] {shape = array<i64: 8, 16>, in_bounds = array<i64: 1>} : memref<?x64xf32>[index, index] -> vector<8x16xf32>
        %wg = tile.load %w[%k, %c48] {shape = array<i64: 8, 16>, in_bounds = array<i64: 1>} : memref<?x64xf32>[index, index] -> vector<8x16xf32>
        %ib = tile.dot %xt, %wi, %ia {contract = [[1 : i64, 0 : i64]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
        %ob = tile.dot %xt, %wo, %oa {contract = [[1 : i64, 0 : i64]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
        %fb = tile.dot %xt, %wf, %fa {contract = [[1 : i64, 0 : i64]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
        %gb = tile.dot %xt, %wg, %ga {contract = [[1 : i64, 0 : i64]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
        scf.yield %ib, %ob, %fb, %gb : vector<4x16xf32>, vector<4x16xf32>, vector<4x16xf32>, vector<4x16xf32>
      }
      %in = arith.negf %iz : vector<4x16xf32>
      %ie = math.exp %in : vector<4x16xf32>
      %id = arith.addf %ie, %one : vector<4x16xf32>
      %is = arith.divf %one, %id : vector<4x16xf32>
      %on = arith.negf %oz : vector<4x16xf32>
      %oe = math.exp %on : vector<4x16xf32>
      %od = arith.addf %oe, %one : vector<4x16xf32>
      %os = arith.divf %one, %od : vector<4x16xf32>
      %fn = arith.negf %fz : vector<4x16xf32>
      %fe = math.exp %fn : vector<4x16xf32>
      %fd = arith.addf %fe, %one : vector<4x16xf32>
      %fs = arith.divf %one, %fd : vector<4x16xf32>
      %gt = math.tanh %gz : vector<4x16xf32>
      %fc = arith.mulf %fs, %c : vector<4x16xf32>
      %c2 = math.fma %is, %gt, %fc : vector<4x16xf32>
      %ct = math.tanh %c2 : vector<4x16xf32>
      %h2 = arith.mulf %os, %ct : vector<4x16xf32>
      %t32 = tile.cast %t : (index) -> i32
      %ts = tile.splat %t32 : (i32) -> vector<4x16xi32>
      %live = tile.compare %ts, %lengthb {kind = "lt"} : (vector<4x16xi32>, vector<4x16xi32>) -> vector<4x16xi1>
      %yt = tile.select %live, %h2, %zero : (vector<4x16xi1>, vector<4x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      %h3 = tile.select %live, %h2, %h : (vector<4x16xi1>, vector<4x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      %c3 = tile.select %live, %c2, %c : (vector<4x16xi1>, vector<4x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
      tile.store %yt, %y[%t, %n, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 2>, unique} : vector<4x16xf32>, memref<?x?x16xf32>[index, index, index]
      scf.yield %h3, %c3 : vector<4x16xf32>, vector<4x16xf32>
    }
    tile.store %hT, %hn[%n, %c0] {shape = array<i64: 4, 16>, in_bounds = array<i64: 1>, unique} : vector<4x16xf32>, memref<?x16xf32>[index, index]
    tile.store %cT, %cn[%n, %c0] {shape = array<i64: 4, 16>, in_bounds = array<i64: 1>, unique} : vector<4x16xf32>, memref<?x16xf32>[index, index]
    tile.return
  }
}
