// RUN: lamina opt %s -p fold-positions | filecheck %s

// The bias and the activation follow on rows of channels; the reshape comes last.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[C:.*]] = nn.conv %x, %w {{.*}} -> tensor<?x8xf32, #nn.dims<["20*B"]>>
// CHECK-NEXT:    %[[B:.*]] = nn.broadcast %bias {dims = array<i64: 1>}
// CHECK-NEXT:    %[[A:.*]] = nn.add %[[C]], %[[B]] : tensor<?x8xf32
// CHECK-NEXT:    %[[R:.*]] = nn.relu %[[A]] : tensor<?x8xf32
// CHECK-NEXT:    %{{.*}} = nn.reshape %[[R]] {{.*}} -> tensor<?x4x5x8xf32

// A residual is rows too.
// CHECK:         %[[X:.*]] = nn.reshape %x : {{.*}} -> tensor<?x8xf32
// CHECK:         %[[S:.*]] = nn.add %[[R]], %[[X]] : tensor<?x8xf32
// CHECK-NEXT:    %{{.*}} = nn.reshape %[[S]]

// What differs from image to image is repeated over the positions, and stays so.
// CHECK:         %[[E:.*]] = nn.broadcast %each
// CHECK-NEXT:    %m = nn.mul %{{.*}}, %[[E]] : tensor<?x4x5x8xf32

!x = tensor<?x4x5x8xf32, #nn.dims<["B"]>>
!w = tensor<8x3x3x8xf32>

func.func @forward(%x: !x, %w: !w, %bias: tensor<8xf32>, %each: tensor<?x8xf32, #nn.dims<["B"]>>) -> (!x, !x) {
  %c = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !x
  %b = nn.broadcast %bias {dims = array<i64: 3>} : (tensor<8xf32>) -> !x
  %a = nn.add %c, %b : !x
  %r = nn.relu %a : !x
  %s = nn.add %r, %x : !x
  %e = nn.broadcast %each {dims = array<i64: 0, 3>} : (tensor<?x8xf32, #nn.dims<["B"]>>) -> !x
  %m = nn.mul %r, %e : !x
  func.return %s, %m : !x, !x
}
