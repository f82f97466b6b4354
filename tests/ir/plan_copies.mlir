// RUN: lamina opt %s -p plan-copies | filecheck %s

// What a host call reads is copied to the host, what it writes to the device.
// CHECK-LABEL: func.func @forward
// CHECK:         %a_host = plan.alloc {memory = "host"}
// CHECK-NEXT:    plan.copy %a, %a_host {lamina.src = ["/h"]}
// CHECK-NEXT:    %b_host = plan.alloc {memory = "host"}
// CHECK-NEXT:    plan.host @h(%a_host, %b_host)
// CHECK-NEXT:    plan.copy %b_host, %b {lamina.src = ["/h"]}

// What is there already is not copied again, be it under another type; what no kernel reads stays.
// CHECK-NOT:     plan.copy %a
// CHECK:         %[[ROWS:.*]] = plan.view %b_host {offset = "0"}
// CHECK-NOT:     plan.copy
// CHECK:         plan.host @rows(%a_host, %[[ROWS]], %c_host)
// CHECK-NOT:     plan.copy
// CHECK:         plan.host @h(%c_host, %{{.*}})
// CHECK-NEXT:    plan.copy %{{.*}}, %out

// Where it was written since, by a kernel or in a branch, it is.
// CHECK:         plan.call @twice(%x, %a)
// CHECK:         plan.copy %a, %[[A:.*]] :
// CHECK:         plan.host @h(%[[A]],
// CHECK:         plan.switch
// CHECK-NOT:       plan.copy %a
// CHECK:           plan.host @h(%[[A]],
// CHECK:         }, {
// CHECK:           plan.copy %{{.*}}, %a
// CHECK:         }
// CHECK:         plan.copy %a, %[[A2:.*]] :
// CHECK:         plan.host @h(%[[A2]],

!b = !plan.buffer<tensor<?xf32, #nn.dims<["2*T"]>>>
!r = !plan.buffer<tensor<?x2xf32, #nn.dims<["T"]>>>
!f = tensor<?xf32, #nn.dims<["2*T"]>>
!m = tensor<?x2xf32, #nn.dims<["T"]>>

tile.kernel @twice attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>):
  tile.return
}

nn.group @h attributes {anchor = "rows"} {
^bb0(%x: !f):
  %y = nn.neg %x : !f
  nn.yield %y : !f
}
nn.group @rows attributes {anchor = "rows"} {
^bb0(%x: !f, %z: !m):
  %y = nn.neg %x : !f
  nn.yield %y : !f
}

func.func @forward(%x: !b, %out: !b, %out_2: !b) {
  %a = plan.alloc : !b
  plan.launch {
    plan.call @twice(%x, %a) {symbols = []} : !b, !b
  }
  %b = plan.alloc : !b
  plan.host @h(%a, %b) {access = ["read", "write"], lamina.src = ["/h"]} : !b, !b
  %c = plan.alloc : !b
  %rows = plan.view %b {offset = "0"} : !b to !r
  plan.host @rows(%a, %rows, %c) {access = ["read", "read", "write"]} : !b, !r, !b
  plan.host @h(%c, %out) {access = ["read", "write"]} : !b, !b
  plan.launch {
    plan.call @twice(%b, %out_2) {symbols = []} : !b, !b
    plan.call @twice(%x, %a) {symbols = []} : !b, !b
  }
  plan.host @h(%a, %out_2) {access = ["read", "write"]} : !b, !b
  plan.switch attributes {value = "T", bounds = array<i64: 1>} {
    plan.host @h(%a, %out_2) {access = ["read", "write"]} : !b, !b
  }, {
    plan.host @h(%x, %a) {access = ["read", "write"]} : !b, !b
  }
  plan.host @h(%a, %out) {access = ["read", "write"]} : !b, !b
  plan.return
}

// A packed weight is on the host as well.
// CHECK-LABEL: func.func @weighted
// CHECK-NEXT:    %[[OUT:.*]] = plan.alloc {memory = "host"}
// CHECK-NEXT:    plan.host @h(%w, %[[OUT]])
// CHECK-NEXT:    plan.copy %[[OUT]], %out
func.func @weighted(%w: !b {lamina.packed = "w"}, %out: !b {lamina.output = "out"}) {
  plan.host @h(%w, %out) {access = ["read", "write"]} : !b, !b
  plan.return
}
