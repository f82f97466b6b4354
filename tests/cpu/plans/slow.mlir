// Long enough to be interrupted: T programs of 400,000 additions each.
!vector = !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>

tile.kernel @sum attributes {symbols = ["n", "rounds"], grid = ["n"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index, %rounds: index):
  %i = tile.program_id {dim = 0 : i64}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %s = scf.for %r = %c0 to %rounds step %c1 iter_args(%t = %zero) -> (f32) {
    %a = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
    %u = arith.addf %t, %a : f32
    scf.yield %u : f32
  }
  tile.store %s, %y[%i] {shape = array<i64: 1>} : f32, memref<?xf32> [index]
  tile.return
}

func.func @forward(%x: !vector {lamina.input = "x"}, %y: !vector {lamina.output = "y"}) {
  plan.launch {
    plan.call @sum(%x, %y) {symbols = ["T", "400000"]} : !vector, !vector
  }
  plan.return
}
