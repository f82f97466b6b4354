// The K largest values of each row and their columns; of equal values the lower column first.
// Program i: row i. Round k looks for the largest value that comes after what round k - 1 found.
builtin.module {
  tile.kernel @top_k attributes {symbols = ["R", "N", "K"], grid = ["R"], access = ["read", "write", "write"]} {
  ^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %at: memref<?x?xi32>, %R: index, %N: index, %K: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %i = tile.program_id {dim = 0 : i64}
    %lane = tile.iota : vector<64xi32>
    %low = arith.constant 0xff800000 : f32
    %high = arith.constant 0x7f800000 : f32
    %none = arith.constant -1 : i32
    %lows = tile.splat %low : (f32) -> vector<64xf32>
    %last, %last_at = scf.for %k = %c0 to %K step %c1 iter_args(%v = %high, %p = %none) -> (f32, i32) {
      %vs = tile.splat %v : (f32) -> vector<64xf32>
      %ps = tile.splat %p : (i32) -> vector<64xi32>
      %best, %best_at = scf.for %j = %c0 to %N step %c64 iter_args(%b = %low, %bp = %none) -> (f32, i32) {
        %xt = tile.load %x[%i, %j] {shape = array<i64: 1, 64>, in_bounds = array<i64: 0>, pad = 0xff800000 : f32} : memref<?x?xf32>[index, index] -> vector<64xf32>
        %j32 = tile.cast %j : (index) -> i32
        %js = tile.splat %j32 : (i32) -> vector<64xi32>
        %cols = arith.addi %lane, %js : vector<64xi32>
        %less = tile.compare %xt, %vs {kind = "lt"} : (vector<64xf32>, vector<64xf32>) -> vector<64xi1>
        %same = tile.compare %xt, %vs {kind = "eq"} : (vector<64xf32>, vector<64xf32>) -> vector<64xi1>
        %after = tile.compare %cols, %ps {kind = "gt"} : (vector<64xi32>, vector<64xi32>) -> vector<64xi1>
        %tie = arith.andi %same, %after : vector<64xi1>
        %open = arith.ori %less, %tie : vector<64xi1>
        %left = tile.select %open, %xt, %lows : (vector<64xi1>, vector<64xf32>, vector<64xf32>) -> vector<64xf32>
        %t, %tp = tile.reduce %left {kind = "argmax", dims = array<i64: 0>} : (vector<64xf32>) -> (f32, i32)
        %tc = arith.addi %tp, %j32 : i32
        %more = tile.compare %t, %b {kind = "gt"} : (f32, f32) -> i1
        %bn = tile.select %more, %t, %b : (i1, f32, f32) -> f32
        %bpn = tile.select %more, %tc, %bp : (i1, i32, i32) -> i32
        scf.yield %bn, %bpn : f32, i32
      }
      tile.store %best, %y[%i, %k] {shape = array<i64: 1, 1>, in_bounds = array<i64: 0, 1>} : f32, memref<?x?xf32>[index, index]
      tile.store %best_at, %at[%i, %k] {shape = array<i64: 1, 1>, in_bounds = array<i64: 0, 1>} : i32, memref<?x?xi32>[index, index]
      scf.yield %best, %best_at : f32, i32
    }
    tile.return
  }
}
