// Softmax of rows of any length in three passes of 64 columns: maximum, sum, quotient.
// Program i: row i. A row with NaN is all NaN.
builtin.module {
  tile.kernel @softmax_long attributes {symbols = ["R", "N"], grid = ["R"], access = ["read", "write"]} {
  ^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %R: index, %N: index):
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %i = tile.program_id {dim = 0 : i64}
    %low = arith.constant 0xff800000 : f32
    %m0 = tile.splat %low : (f32) -> vector<64xf32>
    %tops = scf.for %k = %c0 to %N step %c64 iter_args(%m = %m0) -> (vector<64xf32>) {
      %xt = tile.load %x[%i, %k] {shape = array<i64: 1, 64>, in_bounds = array<i64: 0>, pad = 0xff800000 : f32} : memref<?x?xf32>[index, index] -> vector<64xf32>
      %mn = arith.maximumf %m, %xt : vector<64xf32>
      scf.yield %mn : vector<64xf32>
    }
    %top = tile.reduce %tops {kind = "max", dims = array<i64: 0>} : (vector<64xf32>) -> f32
    %topb = tile.splat %top : (f32) -> vector<64xf32>
    %zero = arith.constant dense<0.000000e+00> : vector<64xf32>
    %sums = scf.for %k_1 = %c0 to %N step %c64 iter_args(%s = %zero) -> (vector<64xf32>) {
      %xt_1 = tile.load %x[%i, %k_1] {shape = array<i64: 1, 64>, in_bounds = array<i64: 0>, pad = 0xff800000 : f32} : memref<?x?xf32>[index, index] -> vector<64xf32>
      %below = arith.subf %xt_1, %topb : vector<64xf32>
      %e = math.exp %below : vector<64xf32>
      %sn = arith.addf %s, %e : vector<64xf32>
      scf.yield %sn : vector<64xf32>
    }
    %sum = tile.reduce %sums {kind = "add", dims = array<i64: 0>} : (vector<64xf32>) -> f32
    %sumb = tile.splat %sum : (f32) -> vector<64xf32>
    scf.for %k_2 = %c0 to %N step %c64 {
      %xt_2 = tile.load %x[%i, %k_2] {shape = array<i64: 1, 64>, in_bounds = array<i64: 0>} : memref<?x?xf32>[index, index] -> vector<64xf32>
      %below_1 = arith.subf %xt_2, %topb : vector<64xf32>
      %e_1 = math.exp %below_1 : vector<64xf32>
      %q = arith.divf %e_1, %sumb : vector<64xf32>
      tile.store %q, %y[%i, %k_2] {shape = array<i64: 1, 64>, in_bounds = array<i64: 0>, unique} : vector<64xf32>, memref<?x?xf32>[index, index]
    }
    tile.return
  }
}
