// RMS norm, 8-bit quantisation in blocks of 32, and the product with packed 4-bit weights.
// A worker normalises and quantises four rows once, then walks over tiles of 16 columns. Weight =
// scale * q + offset, with q in 0..15 packed as [N/16, K/32, 4, 16, 4]: the low nibbles of group j are
// the 4-element group 2j of a block, the high ones 2j + 1. K is 96.
builtin.module {
  tile.kernel @norm_quantize_matmul attributes {symbols = ["M", "N", "workers"], grid = ["workers"], access = ["read", "read", "read", "read", "read", "write"]} {
  ^bb0(%x: memref<?x96xf32>, %g: memref<96xf32>, %q: memref<?x3x4x16x4xi8>, %d: memref<?x3x16xf16>, %m: memref<?x3x16xf16>, %out: memref<?x?xf32>, %M: index, %N: index, %workers: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %blocks = arith.constant 3 : index
    %w = tile.program_id {dim = 0 : i64}
    %xq = tile.scratch : memref<4x3x8x4xi8>
    %xs = tile.scratch : memref<3x4xf32>
    %xz = tile.scratch : memref<3x4xf32>
    %zero = arith.constant dense<0.000000e+00> : vector<4xf32>
    %count = arith.constant dense<9.600000e+01> : vector<4xf32>
    %eps = arith.constant dense<1.000000e-05> : vector<4xf32>
    %c127 = arith.constant dense<1.270000e+02> : vector<4xf32>
    %i0 = arith.constant dense<0> : vector<4x16xi32>
    %acc0 = arith.constant dense<0.000000e+00> : vector<4x16xf32>
    %mask = arith.constant dense<15> : vector<4x1x16x4xi8>
    %four = arith.constant dense<4> : vector<4x1x16x4xi8>
    scf.for %r = %c0 to %M step %c4 {
      %ss = scf.for %k = %c0 to %blocks step %c1 iter_args(%s = %zero) -> (vector<4xf32>) {
        %k32 = arith.muli %k, %c32 : index
        %xt = tile.load %x[%r, %k32] {shape = array<i64: 4, 32>} : memref<?x96xf32>[index, index] -> vector<4x32xf32>
        %xx = arith.mulf %xt, %xt : vector<4x32xf32>
        %part = tile.reduce %xx {kind = "add", dims = array<i64: 1>} : (vector<4x32xf32>) -> vector<4xf32>
        %sum = arith.addf %s, %part : vector<4xf32>
        scf.yield %sum : vector<4xf32>
      }
      %mean = arith.divf %ss, %count : vector<4xf32>
      %safe = arith.addf %mean, %eps : vector<4xf32>
      %norm = math.rsqrt %safe : vector<4xf32>
      %nb = tile.broadcast %norm {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x32xf32>
      scf.for %k_1 = %c0 to %blocks step %c1 {
        %k32_1 = arith.muli %k_1, %c32 : index
        %xt_1 = tile.load %x[%r, %k32_1] {shape = array<i64: 4, 32>} : memref<?x96xf32>[index, index] -> vector<4x32xf32>
        %gt = tile.load %g[%k32_1] {shape = array<i64: 32>, in_bounds = array<i64: 0>} : memref<96xf32>[index] -> vector<32xf32>
        %gb = tile.broadcast %gt {dims = array<i64: 1>} : (vector<32xf32>) -> vector<4x32xf32>
        %xn = arith.mulf %xt_1, %nb : vector<4x32xf32>
        %h = arith.mulf %xn, %gb : vector<4x32xf32>
        %ha = math.absf %h : vector<4x32xf32>
        %top = tile.reduce %ha {kind = "max", dims = array<i64: 1>} : (vector<4x32xf32>) -> vector<4xf32>
        %scale = arith.divf %top, %c127 : vector<4xf32>
        %sb = tile.broadcast %scale {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x32xf32>
        %hs = arith.divf %h, %sb : vector<4x32xf32>
        %h8 = tile.cast %hs : (vector<4x32xf32>) -> vector<4x32xi8>
        tile.store %h8, %xq[%c0, %k_1, %c0, %c0] {shape = array<i64: 4, 1, 8, 4>, in_bounds = array<i64: 0, 1, 2, 3>, unique} : vector<4x32xi8>, memref<4x3x8x4xi8>[index, index, index, index]
        tile.store %scale, %xs[%k_1, %c0] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0, 1>, unique} : vector<4xf32>, memref<3x4xf32>[index, index]
        %h32 = tile.cast %h8 : (vector<4x32xi8>) -> vector<4x32xi32>
        %total = tile.reduce %h32 {kind = "add", dims = array<i64: 1>} : (vector<4x32xi32>) -> vector<4xi32>
        %tf = tile.cast %total : (vector<4xi32>) -> vector<4xf32>
        %ts = arith.mulf %tf, %scale : vector<4xf32>
        tile.store %ts, %xz[%k_1, %c0] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0, 1>, unique} : vector<4xf32>, memref<3x4xf32>[index, index]
      }
      %tiles = arith.divui %N, %c16 : index
      scf.for %j = %w to %tiles step %workers {
        %acc = scf.for %k_2 = %c0 to %blocks step %c1 iter_args(%a = %acc0) -> (vector<4x16xf32>) {
          %packed = tile.load %q[%j, %k_2, %c0, %c0, %c0] {shape = array<i64: 1, 1, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<?x3x4x16x4xi8>[index, index, index, index, index] -> vector<4x1x16x4xi8>
          %lo = arith.andi %packed, %mask : vector<4x1x16x4xi8>
          %hi = arith.shrui %packed, %four : vector<4x1x16x4xi8>
          %both = tile.join %lo, %hi {dim = 1 : i64} : (vector<4x1x16x4xi8>, vector<4x1x16x4xi8>) -> vector<4x2x16x4xi8>
          %w8 = tile.reshape %both : (vector<4x2x16x4xi8>) -> vector<8x16x4xi8>
          %xa = tile.load %xq[%c0, %k_2, %c0, %c0] {shape = array<i64: 4, 1, 8, 4>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<4x3x8x4xi8>[index, index, index, index] -> vector<4x8x4xi8>
          %i = tile.dot %xa, %w8, %i0 {contract = [[1 : i64, 0 : i64], [2 : i64, 2 : i64]], unsigned = array<i64: 0, 1>} : (vector<4x8x4xi8>, vector<8x16x4xi8>, vector<4x16xi32>) -> vector<4x16xi32>
          %f = tile.cast %i : (vector<4x16xi32>) -> vector<4x16xf32>
          %dh = tile.load %d[%j, %k_2, %c0] {shape = array<i64: 1, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<?x3x16xf16>[index, index, index] -> vector<16xf16>
          %mh = tile.load %m[%j, %k_2, %c0] {shape = array<i64: 1, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<?x3x16xf16>[index, index, index] -> vector<16xf16>
          %df = tile.cast %dh : (vector<16xf16>) -> vector<16xf32>
          %mf = tile.cast %mh : (vector<16xf16>) -> vector<16xf32>
          %sa = tile.load %xs[%k_2, %c0] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0, 1>} : memref<3x4xf32>[index, index] -> vector<4xf32>
          %za = tile.load %xz[%k_2, %c0] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0, 1>} : memref<3x4xf32>[index, index] -> vector<4xf32>
          %db = tile.broadcast %df {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
          %sab = tile.broadcast %sa {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x16xf32>
          %mb = tile.broadcast %mf {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
          %zb = tile.broadcast %za {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x16xf32>
          %ds = arith.mulf %db, %sab : vector<4x16xf32>
          %a1 = math.fma %f, %ds, %a : vector<4x16xf32>
          %a2 = math.fma %mb, %zb, %a1 : vector<4x16xf32>
          scf.yield %a2 : vector<4x16xf32>
        }
        %j16 = arith.muli %j, %c16 : index
        tile.store %acc, %out[%r, %j16] {shape = array<i64: 4, 16>, in_bounds = array<i64: 1>, unique} : vector<4x16xf32>, memref<?x?xf32>[index, index]
      }
    }
    tile.return
  }
}
