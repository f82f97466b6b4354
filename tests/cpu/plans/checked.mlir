// A check of the input's values.
!vector = !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>

tile.kernel @double attributes {symbols = ["n"], grid = ["ceildiv(n, 16)"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index):
  %p = tile.program_id {dim = 0 : i64}
  %c16 = arith.constant 16 : index
  %at = arith.muli %p, %c16 : index
  %v = tile.load %x[%at] {shape = array<i64: 16>} : memref<?xf32> [index] -> vector<16xf32>
  %d = arith.addf %v, %v : vector<16xf32>
  tile.store %d, %y[%at] {shape = array<i64: 16>} : vector<16xf32>, memref<?xf32> [index]
  tile.return
}
tile.kernel @positive attributes {symbols = ["n"], grid = ["n"], access = ["read"]} {
^bb0(%x: memref<?xf32>, %n: index):
  %i = tile.program_id {dim = 0 : i64}
  %zero = arith.constant 0.0 : f32
  %v = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
  %ok = tile.compare %v, %zero {kind = "ge"} : (f32, f32) -> i1
  tile.check %ok {node = "/embed/Gather"} : i1
  tile.return
}

func.func @forward(%x: !vector {lamina.input = "x"}, %y: !vector {lamina.output = "y"}) {
  plan.launch {
    plan.call @positive(%x) {symbols = ["T"]} : !vector
    plan.call @double(%x, %y) {symbols = ["T"]} : !vector, !vector
  }
  plan.return
}
