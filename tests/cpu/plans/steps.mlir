// A switch, a state, a packed weight, the arena, and launches that do and do not wait.
!vector = !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
!rows = !plan.buffer<tensor<?x6xf32, #nn.dims<["T"]>>>
!packed = !plan.buffer<tensor<1000xf32>>
!arena = !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(4*T, 64)"]>>>

tile.kernel @double attributes {symbols = ["n"], grid = ["ceildiv(n, 16)"], access = ["read", "write"], schedule = #tile.schedule<{n = 16 : i64}>, work = #tile.work<{bytes = "8*n", float = "?"}>} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index):
  %p = tile.program_id {dim = 0 : i64}
  %c16 = arith.constant 16 : index
  %at = arith.muli %p, %c16 : index
  %v = tile.load %x[%at] {shape = array<i64: 16>} : memref<?xf32> [index] -> vector<16xf32>
  %d = arith.addf %v, %v : vector<16xf32>
  tile.store %d, %y[%at] {shape = array<i64: 16>} : vector<16xf32>, memref<?xf32> [index]
  tile.return
}
tile.kernel @add attributes {symbols = ["n", "workers"], grid = ["workers"], access = ["read", "read", "write"]} {
^bb0(%x: memref<?xf32>, %w: memref<?xf32>, %y: memref<?xf32>, %n: index, %workers: index):
  %p = tile.program_id {dim = 0 : i64}
  scf.for %i = %p to %n step %workers {
    %a = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
    %b = tile.load %w[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
    %c = arith.addf %a, %b : f32
    tile.store %c, %y[%i] {shape = array<i64: 1>} : f32, memref<?xf32> [index]
  }
  tile.return
}
tile.kernel @small attributes {symbols = ["n"], grid = ["n", "2", "3"], access = ["read", "update"]} {
^bb0(%x: memref<?xf32>, %y: memref<?x6xf32>, %n: index):
  %i = tile.program_id {dim = 0 : i64}
  %j = tile.program_id {dim = 1 : i64}
  %k = tile.program_id {dim = 2 : i64}
  %c3 = arith.constant 3 : index
  %row = arith.muli %j, %c3 : index
  %at = arith.addi %row, %k : index
  %v = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
  %old = tile.load %y[%i, %at] {shape = array<i64: 1, 1>} : memref<?x6xf32> [index, index] -> f32
  %f = tile.cast %at : (index) -> f32
  %s = math.fma %v, %f, %old : f32
  tile.store %s, %y[%i, %at] {shape = array<i64: 1, 1>} : f32, memref<?x6xf32> [index, index]
  tile.return
}

func.func @prepare(%w: tensor<1000xf32> {lamina.weight = "w"}) -> (tensor<1000xf32> {lamina.packed = "w2"}) {
  %w2 = nn.add %w, %w : tensor<1000xf32>
  func.return %w2 : tensor<1000xf32>
}
func.func @forward(
  %x: !vector {lamina.input = "x"},
  %s: !rows {lamina.state = "s"},
  %w: !packed {lamina.packed = "w2"},
  %y: !vector {lamina.output = "y"},
  %z: !vector {lamina.output = "z"}
) {
  %arena = plan.arena : !arena
  %a = plan.view %arena {offset = "0"} : !arena to !vector
  %b = plan.view %arena {offset = "64*ceildiv(4*T, 64)"} : !arena to !vector
  plan.launch {
    plan.call @double(%x, %a) {symbols = ["T"]} : !vector, !vector
    plan.call @small(%x, %s) {symbols = ["T"]} : !vector, !rows
  }
  plan.launch {
    plan.call @double(%x, %z) {symbols = ["T"]} : !vector, !vector
  }
  plan.switch attributes {value = "T", bounds = array<i64: 1, 3>} {
    plan.launch {
      plan.call @add(%a, %w, %y) {symbols = ["T", "workers"]} : !vector, !packed, !vector
    }
  }, {
    plan.launch {
      plan.call @double(%a, %y) {symbols = ["T"]} : !vector, !vector
    }
  }, {
    plan.launch {
      plan.call @double(%a, %b) {symbols = ["T"]} : !vector, !vector
    }
    plan.launch {
      plan.call @add(%b, %w, %y) {symbols = ["T", "workers"]} : !vector, !packed, !vector
    }
  }
  plan.return
}
