// 3x3 convolution of stride 2 and padding 1, channels last, with bias and relu, as an implicit GEMM.
// Program (i, j): eight output pixels in row order, 16 output channels. Weights lie as
// [CO/16, 3, 3, 8, 16].
builtin.module {
  tile.kernel @conv3x3_stride2 attributes {symbols = ["B", "OH", "OW", "CB"], grid = ["ceildiv(B*OH*OW, 8)", "CB"], access = ["read", "read", "read", "write"]} {
  ^bb0(%x: memref<?x?x?x8xf32>, %w: memref<?x3x3x8x16xf32>, %bias: memref<?x16xf32>, %out: memref<?x?x?x?x16xf32>, %B: index, %OH: index, %OW: index, %CB: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %block = arith.constant 8 : index
    %i = tile.program_id {dim = 0 : i64}
    %j = tile.program_id {dim = 1 : i64}
    %p0 = arith.muli %i, %block : index
    %lane = tile.iota : vector<8xindex>
    %p0s = tile.splat %p0 : (index) -> vector<8xindex>
    %p = arith.addi %lane, %p0s : vector<8xindex>
    %ows = tile.splat %OW : (index) -> vector<8xindex>
    %ohs = tile.splat %OH : (index) -> vector<8xindex>
    %ow = arith.remui %p, %ows : vector<8xindex>
    %row = arith.divui %p, %ows : vector<8xindex>
    %oh = arith.remui %row, %ohs : vector<8xindex>
    %n = arith.divui %row, %ohs : vector<8xindex>
    %two = arith.constant dense<2> : vector<8xindex>
    %one = arith.constant dense<1> : vector<8xindex>
    %oh2 = arith.muli %oh, %two : vector<8xindex>
    %ih0 = arith.subi %oh2, %one : vector<8xindex>
    %ow2 = arith.muli %ow, %two : vector<8xindex>
    %iw0 = arith.subi %ow2, %one : vector<8xindex>
    %b = tile.load %bias[%j, %c0] {shape = array<i64: 1, 16>, in_bounds = array<i64: 0, 1>} : memref<?x16xf32>[index, index] -> vector<16xf32>
    %acc0 = tile.broadcast %b {dims = array<i64: 1>} : (vector<16xf32>) -> vector<8x16xf32>
    %acc = scf.for %kh = %c0 to %c3 step %c1 iter_args(%a = %acc0) -> (vector<8x16xf32>) {
      %khs = tile.splat %kh : (index) -> vector<8xindex>
      %ih = arith.addi %ih0, %khs : vector<8xindex>
      %inner = scf.for %kw = %c0 to %c3 step %c1 iter_args(%a1 = %a) -> (vector<8x16xf32>) {
        %kws = tile.splat %kw : (index) -> vector<8xindex>
        %iw = arith.addi %iw0, %kws : vector<8xindex>
        %xt = tile.load %x[%n, %ih, %iw, %c0] {shape = array<i64: 8, 1, 1, 8>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3>} : memref<?x?x?x8xf32>[vector<8xindex>, vector<8xindex>, vector<8xindex>, index] -> vector<8x8xf32>
        %wt = tile.load %w[%j, %kh, %kw, %c0, %c0] {shape = array<i64: 1, 1, 1, 8, 16>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<?x3x3x8x16xf32>[index, index, index, index, index] -> vector<8x16xf32>
        %a2 = tile.dot %xt, %wt, %a1 {contract = [[1 : i64, 0 : i64]]} : (vector<8x8xf32>, vector<8x16xf32>, vector<8x16xf32>) -> vector<8x16xf32>
        scf.yield %a2 : vector<8x16xf32>
      }
      scf.yield %inner : vector<8x16xf32>
    }
    %zero = arith.constant dense<0.000000e+00> : vector<8x16xf32>
    %y = arith.maximumf %acc, %zero : vector<8x16xf32>
    tile.store %y, %out[%n, %oh, %ow, %j, %c0] {shape = array<i64: 8, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>, unique} : vector<8x16xf32>, memref<?x?x?x?x16xf32>[vector<8xindex>, vector<8xindex>, vector<8xindex>, index, index]
    tile.return
  }
}
