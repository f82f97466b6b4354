// RUN: lamina opt %s -p pack-weights | filecheck %s

// A float weight is packed in tiles of 16 columns, once, whichever of its dimensions K is.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[V:.*]] = nn.transpose %{{.*}} {perm = array<i64: 1, 0, 2>} : (tensor<32x1x16xf32>) -> tensor<1x32x16xf32>
// CHECK-NEXT:    %[[PAD:.*]] = nn.pad %w {{.*}}high = array<i64: 4, 0>
// CHECK-NEXT:    %[[SPLIT:.*]] = nn.reshape %[[PAD]] {{.*}} -> tensor<2x16x32xf32>
// CHECK-NEXT:    %[[W:.*]] = nn.transpose %[[SPLIT]] {{.*}} -> tensor<2x32x16xf32>

// Blocks become quants, scales and offsets, once for the products and the embedding.
// CHECK-NEXT:    %[[Q:.*]], %[[S:.*]], %[[O:.*]] = quant.pack %blocks {{.*}} -> (tensor<2x1x4x16x4xi8>, tensor<2x1x16xf16>, tensor<2x1x16xf16>)
// CHECK:         %[[TABLE:.*]] = quant.dequantize %[[Q]], %[[S]], %[[O]] {zero = 0 : i64}
// CHECK-NEXT:    %x = nn.gather %[[TABLE]], %ids
// CHECK-NEXT:    %[[A:.*]] = nn.dot_general %x, %[[W]] {contract = {{\[\[1 : i64, 1 : i64\]\]}}}
// CHECK-NEXT:    %[[WIDE:.*]] = nn.reshape %[[A]] {{.*}} -> tensor<?x32xf32
// CHECK-NEXT:    %a = nn.slice %[[WIDE]] {{.*}} -> tensor<?x28xf32
// CHECK:         nn.dot_general %x, %[[W]]
// CHECK:         nn.dot_general %x, %[[V]]
// CHECK:         %[[N:.*]] = quant.dequantize %[[Q]], %[[S]], %[[O]]
// CHECK-NEXT:    %d = nn.dot_general %x, %[[N]]

// A product of two values that depend on the inputs has no weight.
// CHECK-NEXT:    %e = nn.dot_general %x, %x

!x = tensor<?x32xf32, #nn.dims<["T"]>>
!y = tensor<?x28xf32, #nn.dims<["T"]>>
!blocks = !quant.blocks<"q4_1", 20 : i64, 32 : i64>

func.func @forward(%ids: tensor<?xi32, #nn.dims<["T"]>>, %w: tensor<28x32xf32> {lamina.weight = "w"}, %v: tensor<32x16xf32> {lamina.weight = "v"}, %blocks: !blocks {lamina.weight = "b"}) -> (!y, !y, tensor<?x16xf32, #nn.dims<["T"]>>, tensor<?x20xf32, #nn.dims<["T"]>>, tensor<?x?xf32, #nn.dims<["T", "T"]>>) {
  %x = nn.embedding %blocks, %ids : (!blocks, tensor<?xi32, #nn.dims<["T"]>>) -> !x
  %a = nn.dot_general %x, %w {contract = [[1, 1]]} : (!x, tensor<28x32xf32>) -> !y
  %b = nn.dot_general %x, %w {contract = [[1, 1]]} : (!x, tensor<28x32xf32>) -> !y
  %c = nn.dot_general %x, %v {contract = [[1, 0]]} : (!x, tensor<32x16xf32>) -> tensor<?x16xf32, #nn.dims<["T"]>>
  %n = quant.dequantize %blocks {zero = 0 : i64} : (!blocks) -> tensor<20x32xf32>
  %d = nn.dot_general %x, %n {contract = [[1, 1]]} : (!x, tensor<20x32xf32>) -> tensor<?x20xf32, #nn.dims<["T"]>>
  %e = nn.dot_general %x, %x {contract = [[1, 1]]} : (!x, !x) -> tensor<?x?xf32, #nn.dims<["T", "T"]>>
  func.return %a, %b, %c, %d, %e : !y, !y, tensor<?x16xf32, #nn.dims<["T"]>>, tensor<?x20xf32, #nn.dims<["T"]>>, tensor<?x?xf32, #nn.dims<["T", "T"]>>
}
