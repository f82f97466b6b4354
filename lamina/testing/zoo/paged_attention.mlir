// Causal attention of a ragged batch over paged keys and values, with grouped query heads.
// Program (s, b, h): query block b of sequence s, KV head h. Keys lie as [page, head, D, 16], values as
// [page, head, 16, D]. A row that no token was written to may hold NaN.
builtin.module {
  tile.kernel @paged_attention attributes {symbols = ["S", "QB", "H"], grid = ["S", "QB", "H"], access = ["read", "read", "read", "read", "read", "read", "write"]} {
  ^bb0(%q: memref<?x?x3x32xf32>, %kp: memref<?x?x32x16xf32>, %vp: memref<?x?x16x32xf32>, %start: memref<?xi32>, %pos: memref<?xi32>, %table: memref<?x?xi32>, %out: memref<?x?x3x32xf32>, %S: index, %QB: index, %H: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %page = arith.constant 16 : index
    %block = arith.constant 2 : index
    %s = tile.program_id {dim = 0 : i64}
    %b = tile.program_id {dim = 1 : i64}
    %h = tile.program_id {dim = 2 : i64}
    %s1 = arith.addi %s, %c1 : index
    %first = tile.load %start[%s] {shape = array<i64: 1>} : memref<?xi32>[index] -> i32
    %end = tile.load %start[%s1] {shape = array<i64: 1>} : memref<?xi32>[index] -> i32
    %t0 = tile.cast %first : (i32) -> index
    %t1 = tile.cast %end : (i32) -> index
    %skip = arith.muli %b, %block : index
    %q0 = arith.addi %t0, %skip : index
    %some = arith.cmpi slt, %q0, %t1 : index
    scf.if %some {
      %qt = tile.load %q[%q0, %h, %c0, %c0] limit[%t1] {shape = array<i64: 2, 1, 3, 32>, limit_dims = array<i64: 0>, in_bounds = array<i64: 1, 2, 3>} : memref<?x?x3x32xf32>[index, index, index, index] -> vector<6x32xf32>
      %pt = tile.load %pos[%q0] limit[%t1] {shape = array<i64: 2>} : memref<?xi32>[index] -> vector<2xi32>
      %last = tile.reduce %pt {kind = "max", dims = array<i64: 0>} : (vector<2xi32>) -> i32
      %last_index = tile.cast %last : (i32) -> index
      %keys = arith.addi %last_index, %c1 : index
      %padded = arith.addi %last_index, %page : index
      %pages = arith.divui %padded, %page : index
      %pg = tile.broadcast %pt {dims = array<i64: 0>} : (vector<2xi32>) -> vector<2x3xi32>
      %pr = tile.reshape %pg : (vector<2x3xi32>) -> vector<6xi32>
      %rows = tile.broadcast %pr {dims = array<i64: 0>} : (vector<6xi32>) -> vector<6x16xi32>
      %lane = tile.iota : vector<16xi32>
      %low = arith.constant 0xff800000 : f32
      %lows = tile.splat %low : (f32) -> vector<6x16xf32>
      %m0 = tile.splat %low : (f32) -> vector<6xf32>
      %l0 = arith.constant dense<0.000000e+00> : vector<6xf32>
      %o0 = arith.constant dense<0.000000e+00> : vector<6x32xf32>
      %z = arith.constant dense<0.000000e+00> : vector<6x16xf32>
      %scale = arith.constant dense<0.176776692> : vector<6x16xf32>
      %ms, %ls, %os = scf.for %j = %c0 to %pages step %c1 iter_args(%m = %m0, %l = %l0, %o = %o0) -> (vector<6xf32>, vector<6xf32>, vector<6x32xf32>) {
        %number = tile.load %table[%s, %j] {shape = array<i64: 1, 1>, in_bounds = array<i64: 0, 1>} : memref<?x?xi32>[index, index] -> i32
        %p = tile.cast %number : (i32) -> index
        %kt = tile.load %kp[%p, %h, %c0, %c0] {shape = array<i64: 1, 1, 32, 16>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<?x?x32x16xf32>[index, index, index, index] -> vector<32x16xf32>
        %raw = tile.dot %qt, %kt, %z {contract = [[1 : i64, 0 : i64]]} : (vector<6x32xf32>, vector<32x16xf32>, vector<6x16xf32>) -> vector<6x16xf32>
        %scaled = arith.mulf %raw, %scale : vector<6x16xf32>
        %k0 = arith.muli %j, %page : index
        %k032 = tile.cast %k0 : (index) -> i32
        %k0s = tile.splat %k032 : (i32) -> vector<16xi32>
        %kpos = arith.addi %lane, %k0s : vector<16xi32>
        %cols = tile.broadcast %kpos {dims = array<i64: 1>} : (vector<16xi32>) -> vector<6x16xi32>
        %seen = tile.compare %cols, %rows {kind = "le"} : (vector<6x16xi32>, vector<6x16xi32>) -> vector<6x16xi1>
        %score = tile.select %seen, %scaled, %lows : (vector<6x16xi1>, vector<6x16xf32>, vector<6x16xf32>) -> vector<6x16xf32>
        %top = tile.reduce %score {kind = "max", dims = array<i64: 1>} : (vector<6x16xf32>) -> vector<6xf32>
        %mn = arith.maximumf %m, %top : vector<6xf32>
        %mb = tile.broadcast %mn {dims = array<i64: 0>} : (vector<6xf32>) -> vector<6x16xf32>
        %below = arith.subf %score, %mb : vector<6x16xf32>
        %w = math.exp %below : vector<6x16xf32>
        %drop = arith.subf %m, %mn : vector<6xf32>
        %keep = math.exp %drop : vector<6xf32>
        %sum = tile.reduce %w {kind = "add", dims = array<i64: 1>} : (vector<6x16xf32>) -> vector<6xf32>
        %ln = math.fma %l, %keep, %sum : vector<6xf32>
        %left = arith.subi %keys, %k0 : index
        %vt = tile.load %vp[%p, %h, %c0, %c0] limit[%left] {shape = array<i64: 1, 1, 16, 32>, limit_dims = array<i64: 2>, in_bounds = array<i64: 0, 1, 3>} : memref<?x?x16x32xf32>[index, index, index, index] -> vector<16x32xf32>
        %kb = tile.broadcast %keep {dims = array<i64: 0>} : (vector<6xf32>) -> vector<6x32xf32>
        %ok = arith.mulf %o, %kb : vector<6x32xf32>
        %on = tile.dot %w, %vt, %ok {contract = [[1 : i64, 0 : i64]]} : (vector<6x16xf32>, vector<16x32xf32>, vector<6x32xf32>) -> vector<6x32xf32>
        scf.yield %mn, %ln, %on : vector<6xf32>, vector<6xf32>, vector<6x32xf32>
      }
      %lb = tile.broadcast %ls {dims = array<i64: 0>} : (vector<6xf32>) -> vector<6x32xf32>
      %y = arith.divf %os, %lb : vector<6x32xf32>
      tile.store %y, %out[%q0, %h, %c0, %c0] limit[%t1] {shape = array<i64: 2, 1, 3, 32>, limit_dims = array<i64: 0>, in_bounds = array<i64: 1, 2, 3>, unique} : vector<6x32xf32>, memref<?x?x3x32xf32>[index, index, index, index]
    }
    tile.return
  }
}
