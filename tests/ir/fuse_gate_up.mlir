// RUN: lamina opt %s -p outline-groups,fuse-epilogues,fuse-gate-up | filecheck %s

// Both products read x in one kernel, whose end joins them.
// CHECK:       nn.group @dot_general_dot_general_silu_mul attributes {anchor = "linear"}
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: tensor<?x32xf32
// CHECK-NEXT:    %{{.*}} = nn.dot_general %[[X]], %
// CHECK-NEXT:    %{{.*}} = nn.dot_general %[[X]], %
// CHECK-NEXT:    %act = nn.silu
// CHECK-NEXT:    %mlp = nn.mul %act
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %mlp = nn.call @dot_general_dot_general_silu_mul(%x, %wu, %wg)

// A product that others use as well is a result of the kernel.
// CHECK-NEXT:    %scaled, %kept = nn.call @dot_general_dot_general_mul(%x, %wg, %wu)

// Products of other operands stay apart, and so does a left operand that the first one makes.
// CHECK-NEXT:    %d = nn.call @dot_general(%y, %wg)
// CHECK-NEXT:    %b = nn.call @dot_general_mul{{.*}}(%x, %wu, %d)
// CHECK-NEXT:    %f = nn.call @dot_general(%x, %wu)
// CHECK-NEXT:    %g = nn.reshape %f
// CHECK-NEXT:    %h = nn.call @dot_general_mul{{.*}}(%g, %wg, %f)

!x = tensor<?x32xf32, #nn.dims<["T"]>>
!t = tensor<?x2x16xf32, #nn.dims<["T"]>>
!w = tensor<2x32x16xf32>

func.func @forward(%x: !x, %y: !x, %wg: !w, %wu: !w) -> (!t, !t, !t, !t, !t) {
  %gate = nn.dot_general %x, %wg {contract = [[1, 1]]} : (!x, !w) -> !t
  %up = nn.dot_general %x, %wu {contract = [[1, 1]]} : (!x, !w) -> !t
  %act = nn.silu %gate : !t
  %mlp = nn.mul %act, %up : !t

  %kept = nn.dot_general %x, %wu {contract = [[1, 1]]} : (!x, !w) -> !t
  %c = nn.dot_general %x, %wg {contract = [[1, 1]]} : (!x, !w) -> !t
  %scaled = nn.mul %c, %kept : !t

  %a = nn.dot_general %x, %wu {contract = [[1, 1]]} : (!x, !w) -> !t
  %d = nn.dot_general %y, %wg {contract = [[1, 1]]} : (!x, !w) -> !t
  %b = nn.mul %d, %a : !t

  %f = nn.dot_general %x, %wu {contract = [[1, 1]]} : (!x, !w) -> !t
  %g = nn.reshape %f : (!t) -> !x
  %e = nn.dot_general %g, %wg {contract = [[1, 1]]} : (!x, !w) -> !t
  %h = nn.mul %e, %f : !t
  func.return %mlp, %kept, %scaled, %b, %h : !t, !t, !t, !t, !t
}
