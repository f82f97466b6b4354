// Scatter rows by an index that may repeat: one result adds them up in order, one keeps the last.
// Program i: 16 columns, over all updates in blocks of eight. A row outside is dropped.
builtin.module {
  tile.kernel @scatter_duplicates attributes {symbols = ["U", "C"], grid = ["ceildiv(C, 16)"], access = ["read", "read", "update", "update"]} {
  ^bb0(%at: memref<?xi32>, %x: memref<?x?xf32>, %sum: memref<?x?xf32>, %last: memref<?x?xf32>, %U: index, %C: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %i = tile.program_id {dim = 0 : i64}
    %c = arith.muli %i, %c16 : index
    scf.for %u = %c0 to %U step %c1 {
      %r32 = tile.load %at[%u] {shape = array<i64: 1>, in_bounds = array<i64: 0>} : memref<?xi32>[index] -> i32
      %r = tile.cast %r32 : (i32) -> index
      %xt = tile.load %x[%u, %c] {shape = array<i64: 1, 16>, in_bounds = array<i64: 0>} : memref<?x?xf32>[index, index] -> vector<16xf32>
      %old = tile.load %sum[%r, %c] {shape = array<i64: 1, 16>} : memref<?x?xf32>[index, index] -> vector<16xf32>
      %new = arith.addf %old, %xt : vector<16xf32>
      tile.store %new, %sum[%r, %c] {shape = array<i64: 1, 16>, unique} : vector<16xf32>, memref<?x?xf32>[index, index]
    }
    scf.for %u_1 = %c0 to %U step %c8 {
      %r32_1 = tile.load %at[%u_1] {shape = array<i64: 8>, pad = -1 : i32} : memref<?xi32>[index] -> vector<8xi32>
      %r_1 = tile.cast %r32_1 : (vector<8xi32>) -> vector<8xindex>
      %xt_1 = tile.load %x[%u_1, %c] {shape = array<i64: 8, 16>} : memref<?x?xf32>[index, index] -> vector<8x16xf32>
      tile.store %xt_1, %last[%r_1, %c] {shape = array<i64: 8, 16>} : vector<8x16xf32>, memref<?x?xf32>[vector<8xindex>, index]
    }
    tile.return
  }
}
