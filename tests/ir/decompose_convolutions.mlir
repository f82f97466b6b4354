// RUN: lamina opt %s -p decompose-convolutions | filecheck %s

// A window of one place is a product, whatever the images' extents.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[W:.*]] = nn.reshape %w : (tensor<16x1x1x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:    %a = nn.dot_general %x, %[[W]] {contract = {{\[\[3 : i64, 1 : i64\]\]}}}

// With a stride it is none.
// CHECK-NEXT:    %b = nn.conv %x, %w

// The two phases in each dimension of a transposed convolution are output channels, put apart
// afterwards; what the pads cut off is not there.
// CHECK:         %[[V:.*]] = nn.gather
// CHECK:         %[[C:.*]] = nn.conv %x, %{{.*}} {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} {{.*}}tensor<20x2x2x8xf32>
// CHECK-NEXT:    %[[P:.*]] = nn.reshape %[[C]] {{.*}} -> tensor<?x5x6x1x2x2x5xf32
// CHECK-NEXT:    %[[T:.*]] = nn.transpose %[[P]] {perm = array<i64: 0, 1, 4, 2, 5, 3, 6>}
// CHECK-NEXT:    %[[R:.*]] = nn.reshape %[[T]] {{.*}} -> tensor<?x10x12x5xf32
// CHECK-NEXT:    %c = nn.slice %[[R]] {start = ["0", "1", "1", "0"]} {{.*}} -> tensor<?x8x10x5xf32

// The root of a sum of squares.
// CHECK:         %[[S:.*]] = nn.mul %x, %x
// CHECK-NEXT:    %[[A:.*]] = nn.pool %[[S]] {{.*}}kind = "add"
// CHECK-NEXT:    %d = nn.sqrt %[[A]]

!x = tensor<?x4x5x8xf32, #nn.dims<["B"]>>
!a = tensor<?x4x5x16xf32, #nn.dims<["B"]>>
!b = tensor<?x2x3x16xf32, #nn.dims<["B"]>>
!c = tensor<?x8x10x5xf32, #nn.dims<["B"]>>
!d = tensor<?x3x4x8xf32, #nn.dims<["B"]>>

func.func @forward(%x: !x, %w: tensor<16x1x1x8xf32> {lamina.weight = "w"}, %v: tensor<8x4x4x5xf32> {lamina.weight = "v"}) -> (!a, !b, !c, !d) {
  %a = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<16x1x1x8xf32>) -> !a
  %b = nn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<16x1x1x8xf32>) -> !b
  %c = nn.conv_transpose %x, %v {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, extra = array<i64: 0, 0>, groups = 1 : i64} : (!x, tensor<8x4x4x5xf32>) -> !c
  %d = nn.pool %x {kind = "lp", window = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, p = 2 : i64} : (!x) -> !d
  func.return %a, %b, %c, %d : !a, !b, !c, !d
}
