// Rotate adjacent pairs of keys by their positions and write them to pages.
// Program (b, h): four tokens, head h. `slot` is page * 16 + row of each token; keys lie in pages as
// [page, head, D, 16].
builtin.module {
  tile.kernel @rope_paged_write attributes {symbols = ["T", "H"], grid = ["ceildiv(T, 4)", "H"], access = ["read", "read", "read", "read", "update"]} {
  ^bb0(%k: memref<?x?x32xf32>, %pos: memref<?xi32>, %slot: memref<?xi32>, %inv: memref<16xf32>, %kp: memref<?x?x32x16xf32>, %T: index, %H: index):
    %c0 = arith.constant 0 : index
    %block = arith.constant 4 : index
    %b = tile.program_id {dim = 0 : i64}
    %h = tile.program_id {dim = 1 : i64}
    %t0 = arith.muli %b, %block : index
    %kt = tile.load %k[%t0, %h, %c0] {shape = array<i64: 4, 1, 32>, in_bounds = array<i64: 1, 2>} : memref<?x?x32xf32>[index, index, index] -> vector<4x16x2xf32>
    %e3 = tile.slice %kt {start = array<i64: 0, 0, 0>} : (vector<4x16x2xf32>) -> vector<4x16x1xf32>
    %o3 = tile.slice %kt {start = array<i64: 0, 0, 1>} : (vector<4x16x2xf32>) -> vector<4x16x1xf32>
    %e = tile.reshape %e3 : (vector<4x16x1xf32>) -> vector<4x16xf32>
    %o = tile.reshape %o3 : (vector<4x16x1xf32>) -> vector<4x16xf32>
    %p = tile.load %pos[%t0] {shape = array<i64: 4>} : memref<?xi32>[index] -> vector<4xi32>
    %pf = tile.cast %p : (vector<4xi32>) -> vector<4xf32>
    %f = tile.load %inv[%c0] {shape = array<i64: 16>, in_bounds = array<i64: 0>} : memref<16xf32>[index] -> vector<16xf32>
    %pb = tile.broadcast %pf {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x16xf32>
    %fb = tile.broadcast %f {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
    %angle = arith.mulf %pb, %fb : vector<4x16xf32>
    %cos = math.cos %angle : vector<4x16xf32>
    %sin = math.sin %angle : vector<4x16xf32>
    %ec = arith.mulf %e, %cos : vector<4x16xf32>
    %os = arith.mulf %o, %sin : vector<4x16xf32>
    %es = arith.mulf %e, %sin : vector<4x16xf32>
    %oc = arith.mulf %o, %cos : vector<4x16xf32>
    %ye = arith.subf %ec, %os : vector<4x16xf32>
    %yo = arith.addf %es, %oc : vector<4x16xf32>
    %ye3 = tile.reshape %ye : (vector<4x16xf32>) -> vector<4x16x1xf32>
    %yo3 = tile.reshape %yo : (vector<4x16xf32>) -> vector<4x16x1xf32>
    %y = tile.join %ye3, %yo3 {dim = 2 : i64} : (vector<4x16x1xf32>, vector<4x16x1xf32>) -> vector<4x16x2xf32>
    %slots = tile.load %slot[%t0] {shape = array<i64: 4>, pad = -1 : i32} : memref<?xi32>[index] -> vector<4xi32>
    %four = arith.constant dense<4> : vector<4xi32>
    %low = arith.constant dense<15> : vector<4xi32>
    %page32 = arith.shrsi %slots, %four : vector<4xi32>
    %row32 = arith.andi %slots, %low : vector<4xi32>
    %page = tile.cast %page32 : (vector<4xi32>) -> vector<4xindex>
    %row = tile.cast %row32 : (vector<4xi32>) -> vector<4xindex>
    tile.store %y, %kp[%page, %h, %c0, %row] {shape = array<i64: 4, 1, 32, 1>, zip = array<i64: 0, 3>, in_bounds = array<i64: 1, 2>, unique} : vector<4x16x2xf32>, memref<?x?x32x16xf32>[vector<4xindex>, index, index, vector<4xindex>]
    tile.return
  }
}
