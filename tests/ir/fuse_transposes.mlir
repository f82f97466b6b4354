// RUN: lamina opt %s -p outline-groups,fuse-transposes | filecheck %s

// Queries and keys are read where they lie: keys are turned round anyway.
// CHECK:       nn.group @transpose_transpose_dot_general attributes {anchor = "dot"}
// CHECK-NEXT:    ^{{.*}}(%[[K:.*]]: tensor<?x?x4x8xf32{{.*}}, %[[Q:.*]]: tensor<?x?x4x8xf32{{.*}}):
// CHECK-NEXT:    %[[QT:.*]] = nn.transpose %[[K]]
// CHECK-NEXT:    %[[KT:.*]] = nn.transpose %[[Q]]
// CHECK-NEXT:    %s = nn.dot_general %[[KT]], %[[QT]]

// Values are read again for each tile of rows, and what others use as well stays apart.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %vt = nn.call @transpose(%v)
// CHECK-NEXT:    %xt = nn.call @transpose(%x)
// CHECK-NEXT:    %s = nn.call @transpose_transpose_dot_general(%k, %q)
// CHECK-NEXT:    %y = nn.call @dot_general{{.*}}(%s, %vt)
// CHECK-NEXT:    %z = nn.call @dot_general{{.*}}(%xt)
// CHECK-NEXT:    %e = nn.call @exp(%xt)

// A convolution reads an image whose colors come first.
// CHECK-NEXT:    %c = nn.call @transpose_2_conv(%i, %w)

!x = tensor<?x?x4x8xf32, #nn.dims<["B", "L"]>>
!t = tensor<?x4x?x8xf32, #nn.dims<["B", "L"]>>
!s = tensor<?x4x?x?xf32, #nn.dims<["B", "L", "L"]>>

func.func @forward(%q: !x, %k: !x, %v: !x, %x: !x, %i: tensor<1x3x8x8xf32>, %w: tensor<4x1x1x3xf32>) -> (!t, !t, !s, tensor<1x8x8x4xf32>) {
  %qt = nn.transpose %q {perm = array<i64: 0, 2, 1, 3>} : (!x) -> !t
  %kt = nn.transpose %k {perm = array<i64: 0, 2, 1, 3>} : (!x) -> !t
  %vt = nn.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (!x) -> !t
  %xt = nn.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (!x) -> !t
  %s = nn.dot_general %qt, %kt {contract = [[3, 3]], batch = [[0, 0], [1, 1]]} : (!t, !t) -> !s
  %y = nn.dot_general %s, %vt {contract = [[3, 2]], batch = [[0, 0], [1, 1]]} : (!s, !t) -> !t
  %z = nn.dot_general %xt, %xt {contract = [[3, 3]], batch = [[0, 0], [1, 1]]} : (!t, !t) -> !s
  %e = nn.exp %xt : !t
  %il = nn.transpose %i {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x8x8xf32>) -> tensor<1x8x8x3xf32>
  %c = nn.conv %il, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<4x1x1x3xf32>) -> tensor<1x8x8x4xf32>
  func.return %y, %e, %z, %c : !t, !t, !s, tensor<1x8x8x4xf32>
}
