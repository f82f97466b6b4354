// RUN: lamina opt %s -p "outline-groups,fuse-epilogues,choose-variants{bounds=1,8},fuse-norm-prologues{rows=1}" | filecheck %s
// RUN: lamina opt %s -p "outline-groups,fuse-epilogues,fuse-norm-prologues{rows=1}" | filecheck %s --check-prefix NONE

// Where there is one row, each product computes its norm by itself; where there are more, it is
// computed once.
// CHECK-LABEL: func.func @forward
// CHECK:         nn.switch {value = "T", bounds = array<i64: 1, 8>}
// CHECK-NEXT:      %q = nn.call @rms_norm_dot_general(%x, %g, %wq)
// CHECK-NEXT:      %k = nn.call @rms_norm_dot_general(%x, %g, %wk)

// A norm that is needed elsewhere too stays.
// CHECK-NEXT:      %m = nn.call @rms_norm(%x, %f)
// CHECK-NEXT:      %o = nn.call @dot_general(%m, %wq)
// CHECK:         }, {
// CHECK-NEXT:      %[[N:.*]] = nn.call @rms_norm(%x, %g)
// CHECK-NEXT:      %{{.*}} = nn.call @dot_general(%[[N]], %wq)

// Without branches nothing is known of the rows.
// NONE-NOT: nn.call @rms_norm_dot_general

!x = tensor<?x32xf32, #nn.dims<["T"]>>
!t = tensor<?x2x16xf32, #nn.dims<["T"]>>
!w = tensor<2x32x16xf32>

func.func @forward(%x: !x, %g: tensor<32xf32>, %f: tensor<32xf32>, %wq: !w, %wk: !w) -> (!t, !t, !t, !x) {
  %n = nn.rms_norm %x, %g {eps = 1.0e-05 : f32} : (!x, tensor<32xf32>) -> !x
  %q = nn.dot_general %n, %wq {contract = [[1, 1]]} : (!x, !w) -> !t
  %k = nn.dot_general %n, %wk {contract = [[1, 1]]} : (!x, !w) -> !t
  %m = nn.rms_norm %x, %f {eps = 1.0e-05 : f32} : (!x, tensor<32xf32>) -> !x
  %o = nn.dot_general %m, %wq {contract = [[1, 1]]} : (!x, !w) -> !t
  func.return %q, %k, %o, %m : !t, !t, !t, !x
}
