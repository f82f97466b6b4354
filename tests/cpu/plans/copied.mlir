// A group that runs on the host, between two launches of a device with memory of its own.
!vector = !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
!ids = !plan.buffer<tensor<?xi32, #nn.dims<["T"]>>>
!arena = !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(4*T, 64)"]>>>
!host_arena = !plan.buffer<tensor<?xi8, #nn.dims<["192*ceildiv(4*T, 64)"]>>>

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

nn.group @take attributes {anchor = "gather"} {
^bb0(%a: tensor<?xf32, #nn.dims<["T"]>>, %i: tensor<?xi32, #nn.dims<["T"]>>):
  %b = nn.gather %a, %i {axis = 0 : i64, lamina.src = ["/take"]} : (tensor<?xf32, #nn.dims<["T"]>>, tensor<?xi32, #nn.dims<["T"]>>) -> tensor<?xf32, #nn.dims<["T"]>>
  nn.yield %b : tensor<?xf32, #nn.dims<["T"]>>
}

func.func @forward(%x: !vector {lamina.input = "x"}, %ids: !ids {lamina.input = "ids"}, %y: !vector {lamina.output = "y"}) {
  %arena = plan.arena : !arena
  %a = plan.view %arena {offset = "0"} : !arena to !vector
  %host = plan.arena {memory = "host"} : !host_arena
  %ah = plan.view %host {offset = "0"} : !host_arena to !vector
  %ih = plan.view %host {offset = "64*ceildiv(4*T, 64)"} : !host_arena to !ids
  %bh = plan.view %host {offset = "128*ceildiv(4*T, 64)"} : !host_arena to !vector
  %b = plan.view %arena {offset = "64*ceildiv(4*T, 64)"} : !arena to !vector
  plan.launch {
    plan.call @double(%x, %a) {symbols = ["T"]} : !vector, !vector
  }
  plan.copy %a, %ah : !vector
  plan.copy %ids, %ih : !ids
  plan.host @take(%ah, %ih, %bh) {access = ["read", "read", "write"]} : !vector, !ids, !vector
  plan.copy %bh, %b : !vector
  plan.launch {
    plan.call @double(%b, %y) {symbols = ["T"]} : !vector, !vector
  }
  plan.return
}
