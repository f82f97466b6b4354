// RUN: lamina opt %s -p lower-groups | filecheck %s

// A group is a kernel whose symbols are numbered; groups that differ in their names are one. A
// program takes a few rows.
// CHECK:       tile.kernel @twice attributes {symbols = ["n0", "workers"], grid = ["ceildiv(n0, 8)"], access = ["read", "write"], aliases = {{\[\[0 : i64, 1 : i64\]\]}}, work = #tile.work<{bytes = "64*n0"}>}
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: memref<?x8xf32>, %[[Y:.*]]: memref<?x8xf32>, %[[N:.*]]: index, %{{.*}}: index):
// CHECK:         %[[PROGRAM:.*]] = tile.program_id {dim = 0 : i64}
// CHECK-NEXT:    %[[FIRST:.*]] = arith.muli %[[PROGRAM]], %[[COUNT:.*]] : index
// CHECK-NEXT:    %[[LEFT:.*]] = arith.subi %[[N]], %[[FIRST]] : index
// CHECK-NEXT:    %[[END:.*]] = arith.minsi %[[LEFT]], %[[COUNT]] : index
// CHECK-NEXT:    scf.for %[[I:.*]] = %{{.*}} to %[[END]] step %{{.*}} {
// CHECK-NEXT:    %[[ROW:.*]] = arith.addi %[[FIRST]], %[[I]] : index
// CHECK-NEXT:    %[[T:.*]] = tile.load %[[X]][%[[ROW]], %{{.*}}] {shape = array<i64: 1, 8>, in_bounds = array<i64: 0, 1>}
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[T]], %[[T]]
// CHECK-NEXT:    tile.store %[[SUM]], %[[Y]][%[[ROW]], %{{.*}}] {shape = array<i64: 1, 8>, in_bounds = array<i64: 0, 1>, unique}
// CHECK-NOT:   tile.kernel @double
// CHECK:       tile.kernel @write attributes {{.*}} access = ["update", "read", "read", "read", "read"]

// Results are arguments; a reshape is a view, forwards from inputs and backwards from outputs; a
// pool is updated where it is; and what one call gives out twice is copied.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    %x: !plan.buffer<tensor<?x2x4xf32, #nn.dims<["T"]>>> {lamina.input = "x"}
// CHECK-SAME:    %k: !plan.buffer<tensor<?x1x16x8xf32, #nn.dims<["pages"]>>> {lamina.state = "k"}
// CHECK-SAME:    %out: !plan.buffer<tensor<?xf32, #nn.dims<["8*T"]>>> {lamina.output = "y"}
// CHECK-SAME:    %out_1: !plan.buffer<tensor<?x8xf32, #nn.dims<["T"]>>> {lamina.output = "z"}
// CHECK-NEXT:    %[[OUT:.*]] = plan.view %out {offset = "0"}
// CHECK-NEXT:    %flat = plan.view %x {offset = "0"}
// CHECK-NEXT:    %a = plan.alloc
// CHECK-NEXT:    plan.launch attributes {lamina.src = ["/a"]} {
// CHECK-NEXT:      plan.call @twice(%flat, %a) {symbols = ["T", "workers"]}
// CHECK:           plan.call @twice(%a, %[[OUT]])
// CHECK:           plan.call @write(%k, %{{.*}}, %positions, %positions, %table) {symbols = ["pages", "T", "S", "B", "workers"]}
// CHECK:           plan.call @twice(%r, %out_2) {symbols = ["R", "workers"]}
// CHECK:           plan.call @reshape(%[[OUT]], %out_1)
// CHECK:         plan.return

!x = tensor<?x2x4xf32, #nn.dims<["T"]>>
!f = tensor<?x8xf32, #nn.dims<["T"]>>
!h = tensor<?x1x8xf32, #nn.dims<["T"]>>
!k = !cache.pages<f32, "pages", 1 : i64, 16 : i64, 8 : i64, 0 : i64>
!r = tensor<?x8xf32, #nn.dims<["R"]>>
!ids = tensor<?xi32, #nn.dims<["T"]>>
!table = tensor<?x?xi32, #nn.dims<["S", "B"]>>

nn.group @twice attributes {anchor = "rows"} {
^bb0(%x: !f):
  %y = nn.add %x, %x : !f
  nn.yield %y : !f
}
nn.group @double attributes {anchor = "rows"} {
^bb0(%x: !r):
  %y = nn.add %x, %x : !r
  nn.yield %y : !r
}
nn.group @write attributes {anchor = "rows"} {
^bb0(%k: !k, %x: !h, %positions: !ids, %sequence: !ids, %table: !table):
  %y = cache.write %k, %x, %positions, %sequence, %table : (!k, !h, !ids, !ids, !table) -> !k
  nn.yield %y : !k
}

func.func @forward(%x: !x {lamina.input = "x"}, %r: !r {lamina.input = "r"}, %positions: !ids {lamina.input = "positions"}, %table: !table {lamina.input = "table"}, %k: !k {lamina.state = "k"}) -> (tensor<?xf32, #nn.dims<["8*T"]>> {lamina.output = "y"}, !f {lamina.output = "z"}, !r {lamina.output = "w"}, !k {lamina.state = "k"}) {
  %flat = nn.reshape %x : (!x) -> !f
  %a = nn.call @twice(%flat) {lamina.src = ["/a"]} : (!f) -> !f
  %b = nn.call @twice(%a) : (!f) -> !f
  %y = nn.reshape %b : (!f) -> tensor<?xf32, #nn.dims<["8*T"]>>
  %h = nn.reshape %a : (!f) -> !h
  %k1 = nn.call @write(%k, %h, %positions, %positions, %table) : (!k, !h, !ids, !ids, !table) -> !k
  %d = nn.call @double(%r) : (!r) -> !r
  func.return %y, %b, %d, %k1 : tensor<?xf32, #nn.dims<["8*T"]>>, !f, !r, !k
}
