// RUN: lamina opt %s -p "outline-groups,choose-places{types=f64,i16},fuse-elementwise" | filecheck %s

// What takes or gives elements that the target has not is for the host, and says why; it is merged
// with its like alone.
// CHECK:       nn.group @cast_mul_cast{{.*}} attributes {anchor = "rows", host = "the target has no f64"}
// CHECK:       nn.group @exp_add attributes {anchor = "rows"}
// CHECK:       nn.group @cast{{.*}} attributes {anchor = "rows", host = "the target has no i16"}
// CHECK:       nn.group @sqrt attributes {anchor = "rows"}
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    nn.call @exp_add(%x)
// CHECK-NEXT:    nn.call @cast_mul_cast
// CHECK-NEXT:    nn.call @sqrt
// CHECK-NEXT:    nn.call @cast

!f = tensor<?x64xf32, #nn.dims<["T"]>>
!d = tensor<?x64xf64, #nn.dims<["T"]>>
!i = tensor<?x64xi16, #nn.dims<["T"]>>

func.func @forward(%x: !f {lamina.input = "x"}) -> (!f {lamina.output = "y"}, !i {lamina.output = "z"}) {
  %a = nn.exp %x : !f
  %b = nn.add %a, %a : !f
  %c = nn.cast %b : (!f) -> !d
  %d = nn.mul %c, %c : !d
  %e = nn.cast %d : (!d) -> !f
  %y = nn.sqrt %e : !f
  %z = nn.cast %y : (!f) -> !i
  func.return %y, %z : !f, !i
}
