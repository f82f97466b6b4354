// RUN: lamina opt %s -p fuse-activations | filecheck %s

// Factors come in any order, and a number that is left over stays one.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[S:.*]] = nn.silu %x
// CHECK:         %a = nn.mul %[[S]], %{{.*}}
// CHECK-NEXT:    %b = nn.gelu %x : tensor
// CHECK-NEXT:    %c = nn.gelu %x {approximate} : tensor

// With another number in it, it is none.
// CHECK:         nn.erf
// CHECK:         %d = nn.mul

!t = tensor<?x4xf32, #nn.dims<["T"]>>

func.func @forward(%x: !t {lamina.input = "x"}) -> (!t {lamina.output = "a"}, !t {lamina.output = "b"}, !t {lamina.output = "c"}, !t {lamina.output = "d"}) {
  %three = nn.constant {value = 3.000000e+00 : f32} : !t
  %one = nn.constant {value = 1.000000e+00 : f32} : !t
  %half = nn.constant {value = 5.000000e-01 : f32} : !t
  %root = nn.constant {value = 1.41421354 : f32} : !t
  %k = nn.constant {value = 0.797884583 : f32} : !t
  %cubic = nn.constant {value = 0.0447149985 : f32} : !t
  %s = nn.sigmoid %x : !t
  %s3 = nn.mul %s, %three : !t
  %a = nn.mul %x, %s3 : !t
  %e0 = nn.div %x, %root : !t
  %e1 = nn.erf %e0 : !t
  %e2 = nn.add %e1, %one : !t
  %e3 = nn.mul %x, %e2 : !t
  %b = nn.mul %e3, %half : !t
  %t0 = nn.mul %x, %x : !t
  %t1 = nn.mul %t0, %x : !t
  %t2 = nn.mul %cubic, %t1 : !t
  %t3 = nn.add %x, %t2 : !t
  %t4 = nn.mul %t3, %k : !t
  %t5 = nn.tanh %t4 : !t
  %t6 = nn.add %one, %t5 : !t
  %t7 = nn.mul %half, %t6 : !t
  %c = nn.mul %x, %t7 : !t
  %f0 = nn.mul %x, %half : !t
  %f1 = nn.erf %f0 : !t
  %f2 = nn.add %f1, %one : !t
  %d = nn.mul %x, %f2 : !t
  func.return %a, %b, %c, %d : !t, !t, !t, !t
}
