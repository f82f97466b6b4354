// Attention of one token a sequence over parts of 64 keys, for split_kv_merge to put together.
// Program (s, h, p): part p of sequence s with KV head h, which three query heads share. Keys lie as
// [page, head, D, 16], values as [page, head, 16, D]. A part gives its maximum, sum and weighted values;
// one behind the token's own position gives nothing.
builtin.module {
  tile.kernel @split_kv_attention attributes {symbols = ["S", "H", "P"], grid = ["S", "H", "P"], access = ["read", "read", "read", "read", "read", "write", "write", "write"]} {
  ^bb0(%q: memref<?x?x3x64xf32>, %kp: memref<?x?x64x16xf32>, %vp: memref<?x?x16x64xf32>, %pos: memref<?xi32>, %table: memref<?x?xi32>, %top: memref<?x?x?x3xf32>, %sum: memref<?x?x?x3xf32>, %out: memref<?x?x?x3x64xf32>, %S: index, %H: index, %P: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %page = arith.constant 16 : index
    %pages = arith.constant 4 : index
    %s = tile.program_id {dim = 0 : i64}
    %h = tile.program_id {dim = 1 : i64}
    %p = tile.program_id {dim = 2 : i64}
    %own = tile.load %pos[%s] {shape = array<i64: 1>, in_bounds = array<i64: 0>} : memref<?xi32>[index] -> i32
    %last = tile.cast %own : (i32) -> index
    %keys = arith.addi %last, %c1 : index
    %padded = arith.addi %last, %page : index
    %there = arith.divui %padded, %page : index
    %first = arith.muli %p, %pages : index
    %behind = arith.addi %first, %pages : index
    %end = arith.minsi %behind, %there : index
    %some = arith.cmpi slt, %first, %there : index
    scf.if %some {
      %qt = tile.load %q[%s, %h, %c0, %c0] {shape = array<i64: 1, 1, 3, 64>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<?x?x3x64xf32>[index, index, index, index] -> vector<3x64xf32>
      %rows = tile.splat %own : (i32) -> vector<3x16xi32>
      %lane = tile.iota : vector<16xi32>
      %low = arith.constant 0xff800000 : f32
      %lows = tile.splat %low : (f32) -> vector<3x16xf32>
      %m0 = tile.splat %low : (f32) -> vector<3xf32>
      %l0 = arith.constant dense<0.000000e+00> : vector<3xf32>
      %o0 = arith.constant dense<0.000000e+00> : vector<3x64xf32>
      %z = arith.constant dense<0.000000e+00> : vector<3x16xf32>
      %scale = arith.constant dense<1.250000e-01> : vector<3x16xf32>
      %ms, %ls, %os = scf.for %j = %first to %end step %c1 iter_args(%m = %m0, %l = %l0, %o = %o0) -> (vector<3xf32>, vector<3xf32>, vector<3x64xf32>) {
        %number = tile.load %table[%s, %j] {shape = array<i64: 1, 1>, in_bounds = array<i64: 0, 1>} : memref<?x?xi32>[index, index] -> i32
        %n = tile.cast %number : (i32) -> index
        %kt = tile.load %kp[%n, %h, %c0, %c0] {shape = array<i64: 1, 1, 64, 16>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<?x?x64x16xf32>[index, index, index, index] -> vector<64x16xf32>
        %raw = tile.dot %qt, %kt, %z {contract = [[1 : i64, 0 : i64]]} : (vector<3x64xf32>, vector<64x16xf32>, vector<3x16xf32>) -> vector<3x16xf32>
        %scaled = arith.mulf %raw, %scale : vector<3x16xf32>
        %k0 = arith.muli %j, %page : index
        %k032 = tile.cast %k0 : (index) -> i32
        %k0s = tile.splat %k032 : (i32) -> vector<16xi32>
        %kpos = arith.addi %lane, %k0s : vector<16xi32>
        %cols = tile.broadcast %kpos {dims = array<i64: 1>} : (vector<16xi32>) -> vector<3x16xi32>
        %seen = tile.compare %cols, %rows {kind = "le"} : (vector<3x16xi32>, vector<3x16xi32>) -> vector<3x16xi1>
        %score = tile.select %seen, %scaled, %lows : (vector<3x16xi1>, vector<3x16xf32>, vector<3x16xf32>) -> vector<3x16xf32>
        %high = tile.reduce %score {kind = "max", dims = array<i64: 1>} : (vector<3x16xf32>) -> vector<3xf32>
        %mn = arith.maximumf %m, %high : vector<3xf32>
        %mb = tile.broadcast %mn {dims = array<i64: 0>} : (vector<3xf32>) -> vector<3x16xf32>
        %below = arith.subf %score, %mb : vector<3x16xf32>
        %w = math.exp %below : vector<3x16xf32>
        %drop = arith.subf %m, %mn : vector<3xf32>
        %keep = math.exp %drop : vector<3xf32>
        %more = tile.reduce %w {kind = "add", dims = array<i64: 1>} : (vector<3x16xf32>) -> vector<3xf32>
        %ln = math.fma %l, %keep, %more : vector<3xf32>
        %left = arith.subi %keys, %k0 : index
        %vt = tile.load %vp[%n, %h, %c0, %c0] limit[%left] {shape = array<i64: 1, 1, 16, 64>, limit_dims = array<i64: 2>, in_bounds = array<i64: 0, 1, 3>} : memref<?x?x16x64xf32>[index, index, index, index] -> vector<16x64xf32>
        %kb = tile.broadcast %keep {dims = array<i64: 0>} : (vector<3xf32>) -> vector<3x64xf32>
        %ok = arith.mulf %o, %kb : vector<3x64xf32>
        %on = tile.dot %w, %vt, %ok {contract = [[1 : i64, 0 : i64]]} : (vector<3x16xf32>, vector<16x64xf32>, vector<3x64xf32>) -> vector<3x64xf32>
        scf.yield %mn, %ln, %on : vector<3xf32>, vector<3xf32>, vector<3x64xf32>
      }
      tile.store %ms, %top[%s, %h, %p, %c0] {shape = array<i64: 1, 1, 1, 3>, in_bounds = array<i64: 0, 1, 2, 3>, unique} : vector<3xf32>, memref<?x?x?x3xf32>[index, index, index, index]
      tile.store %ls, %sum[%s, %h, %p, %c0] {shape = array<i64: 1, 1, 1, 3>, in_bounds = array<i64: 0, 1, 2, 3>, unique} : vector<3xf32>, memref<?x?x?x3xf32>[index, index, index, index]
      tile.store %os, %out[%s, %h, %p, %c0, %c0] {shape = array<i64: 1, 1, 1, 3, 64>, in_bounds = array<i64: 0, 1, 2, 3, 4>, unique} : vector<3x64xf32>, memref<?x?x?x3x64xf32>[index, index, index, index, index]
    }
    tile.return
  }
}
