// Merge attention done over S parts of the keys: each part gives its maximum, sum and weighted values.
// Program i: four rows. A part without keys has maximum -inf and sum 0; a row without keys gives 0.
builtin.module {
  tile.kernel @split_kv_merge attributes {symbols = ["S", "R"], grid = ["ceildiv(R, 4)"], access = ["read", "read", "read", "write"]} {
  ^bb0(%m: memref<?x?xf32>, %l: memref<?x?xf32>, %o: memref<?x?x32xf32>, %y: memref<?x32xf32>, %S: index, %R: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %i = tile.program_id {dim = 0 : i64}
    %r = arith.muli %i, %c4 : index
    %low = arith.constant 0xff800000 : f32
    %lows = tile.splat %low : (f32) -> vector<4xf32>
    %zero = arith.constant dense<0.000000e+00> : vector<4xf32>
    %zeros = arith.constant dense<0.000000e+00> : vector<4x32xf32>
    %top = scf.for %s = %c0 to %S step %c1 iter_args(%a = %lows) -> (vector<4xf32>) {
      %mt = tile.load %m[%s, %r] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0>, pad = 0xff800000 : f32} : memref<?x?xf32>[index, index] -> vector<4xf32>
      %an = arith.maximumf %a, %mt : vector<4xf32>
      scf.yield %an : vector<4xf32>
    }
    %sum, %acc = scf.for %s_1 = %c0 to %S step %c1 iter_args(%a_1 = %zero, %v = %zeros) -> (vector<4xf32>, vector<4x32xf32>) {
      %mt_1 = tile.load %m[%s_1, %r] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0>, pad = 0xff800000 : f32} : memref<?x?xf32>[index, index] -> vector<4xf32>
      %empty = tile.compare %mt_1, %lows {kind = "eq"} : (vector<4xf32>, vector<4xf32>) -> vector<4xi1>
      %below = arith.subf %mt_1, %top : vector<4xf32>
      %e = math.exp %below : vector<4xf32>
      %w = tile.select %empty, %zero, %e : (vector<4xi1>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>
      %lt = tile.load %l[%s_1, %r] {shape = array<i64: 1, 4>, in_bounds = array<i64: 0>} : memref<?x?xf32>[index, index] -> vector<4xf32>
      %an_1 = math.fma %lt, %w, %a_1 : vector<4xf32>
      %ot = tile.load %o[%s_1, %r, %c0] {shape = array<i64: 1, 4, 32>, in_bounds = array<i64: 0, 2>} : memref<?x?x32xf32>[index, index, index] -> vector<4x32xf32>
      %wb = tile.broadcast %w {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x32xf32>
      %vn = math.fma %ot, %wb, %v : vector<4x32xf32>
      scf.yield %an_1, %vn : vector<4xf32>, vector<4x32xf32>
    }
    %sumb = tile.broadcast %sum {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x32xf32>
    %q = arith.divf %acc, %sumb : vector<4x32xf32>
    %some = tile.compare %sumb, %zeros {kind = "ne"} : (vector<4x32xf32>, vector<4x32xf32>) -> vector<4x32xi1>
    %yt = tile.select %some, %q, %zeros : (vector<4x32xi1>, vector<4x32xf32>, vector<4x32xf32>) -> vector<4x32xf32>
    tile.store %yt, %y[%r, %c0] {shape = array<i64: 4, 32>, in_bounds = array<i64: 1>, unique} : vector<4x32xf32>, memref<?x32xf32>[index, index]
    tile.return
  }
}
