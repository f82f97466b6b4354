// RUN: lamina opt %s -p outline-groups,fuse-epilogues | filecheck %s

// Bias, activation and residual follow the product tile by tile, through the reshape.
// CHECK:       nn.group @dot_general_broadcast_add_gelu_add
// CHECK:         %h = nn.gelu
// CHECK-NEXT:    %{{.*}} = nn.add %h
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %r = nn.call @dot_general_broadcast_add_gelu_add(%x, %w, %bias)

// One kernel can have two ends, and its own result stays one where others need it.
// CHECK-NEXT:    %t, %u = nn.call @rms_norm_exp_tanh(%r, %g)

// A reshape that others use too comes after the kernel.
// CHECK-NEXT:    %{{.*}}, %b = nn.call @dot_general_exp{{.*}}(%t, %w)
// CHECK-NEXT:    %c = nn.reshape %b
// CHECK-NEXT:    %v = nn.call @softmax(%c)

// A softmax needs its whole row; a slice that begins elsewhere does not cut off padding; and
// heads of 24 columns are no whole tiles of 16.
// CHECK-NEXT:    %e = nn.call @dot_general(%u, %w)
// CHECK-DAG:     %p = nn.call @softmax
// CHECK-DAG:     %s = nn.call @slice
// CHECK-DAG:     %z = nn.call @exp_2

!x = tensor<?x48xf32, #nn.dims<["T"]>>
!t = tensor<?x3x16xf32, #nn.dims<["T"]>>
!h = tensor<?x2x24xf32, #nn.dims<["T"]>>
!w = tensor<3x48x16xf32>

func.func @forward(%x: !x, %w: !w, %bias: tensor<48xf32>, %g: tensor<48xf32>) -> (!x, !x, !x, tensor<?x40xf32, #nn.dims<["T"]>>, !h) {
  %d = nn.dot_general %x, %w {contract = [[1, 1]]} : (!x, !w) -> !t
  %flat = nn.reshape %d : (!t) -> !x
  %wide = nn.broadcast %bias {dims = array<i64: 1>} : (tensor<48xf32>) -> !x
  %a = nn.add %flat, %wide : !x
  %h = nn.gelu %a : !x
  %r = nn.add %h, %x : !x
  %m = nn.rms_norm %r, %g {eps = 1.0e-05 : f32} : (!x, tensor<48xf32>) -> !x
  %t = nn.tanh %m : !x
  %u = nn.exp %m : !x
  %b = nn.dot_general %t, %w {contract = [[1, 1]]} : (!x, !w) -> !t
  %c = nn.reshape %b : (!t) -> !x
  %y = nn.exp %c : !x
  %v = nn.softmax %c {axis = 1 : i64} : (!x) -> !x
  %e = nn.dot_general %u, %w {contract = [[1, 1]]} : (!x, !w) -> !t
  %f = nn.reshape %e : (!t) -> !x
  %p = nn.softmax %f {axis = 1 : i64} : (!x) -> !x
  %s = nn.slice %f {start = ["0", "8"]} : (!x) -> tensor<?x40xf32, #nn.dims<["T"]>>
  %heads = nn.reshape %f : (!x) -> !h
  %z = nn.exp %heads : !h
  func.return %y, %v, %p, %s, %z : !x, !x, !x, tensor<?x40xf32, #nn.dims<["T"]>>, !h
}
