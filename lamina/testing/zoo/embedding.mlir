// Rows of an f16 table by token, in f32; a token outside of the table is recorded and gives 0.
// Program i: eight tokens, 32 columns at a time.
builtin.module {
  tile.kernel @embedding attributes {symbols = ["T", "V", "D"], grid = ["ceildiv(T, 8)"], access = ["read", "read", "write"]} {
  ^bb0(%tokens: memref<?xi32>, %table: memref<?x?xf16>, %y: memref<?x?xf32>, %T: index, %V: index, %D: index):
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %i = tile.program_id {dim = 0 : i64}
    %t = arith.muli %i, %c8 : index
    %ids = tile.load %tokens[%t] {shape = array<i64: 8>} : memref<?xi32>[index] -> vector<8xi32>
    %size = tile.cast %V : (index) -> i32
    %sizes = tile.splat %size : (i32) -> vector<8xi32>
    %ok = tile.compare %ids, %sizes {kind = "lt", unsigned} : (vector<8xi32>, vector<8xi32>) -> vector<8xi1>
    tile.check %ok {node = "embedding.tokens"} : vector<8xi1>
    %rows = tile.cast %ids : (vector<8xi32>) -> vector<8xindex>
    scf.for %d = %c0 to %D step %c32 {
      %half = tile.load %table[%rows, %d] {shape = array<i64: 8, 32>} : memref<?x?xf16>[vector<8xindex>, index] -> vector<8x32xf16>
      %full = tile.cast %half : (vector<8x32xf16>) -> vector<8x32xf32>
      tile.store %full, %y[%t, %d] {shape = array<i64: 8, 32>, unique} : vector<8x32xf32>, memref<?x?xf32>[index, index]
    }
    tile.return
  }
}
