// RUN: lamina opt %s -p fold-duplicates | filecheck %s

// Equal but for the source: one stays, with both sources, and what used the other uses it.
// CHECK-LABEL: func.func @equal
// CHECK-NEXT:    %a = nn.exp %x {lamina.src = ["/a", "/b"]}
// CHECK-NEXT:    %c = nn.add %a, %a
// CHECK-NEXT:    return %c

// Unused values go, and those that only they used.
// CHECK-LABEL: func.func @unused
// CHECK-NEXT:    return %x

// A value of one branch is not known in the other, one from outside is.
// CHECK-LABEL: func.func @branches
// CHECK-NEXT:    %e = nn.exp %x
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      %s = nn.sqrt %x
// CHECK-NEXT:      %u = nn.add %e, %s
// CHECK:         } else {
// CHECK-NEXT:      %t = nn.sqrt %x
// CHECK-NEXT:      %v = nn.mul %e, %t

func.func @equal(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.exp %x {lamina.src = ["/a"]} : tensor<4xf32>
  %b = nn.exp %x {lamina.src = ["/b"]} : tensor<4xf32>
  %c = nn.add %a, %b : tensor<4xf32>
  func.return %c : tensor<4xf32>
}

func.func @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.exp %x : tensor<4xf32>
  %b = nn.add %a, %x : tensor<4xf32>
  func.return %x : tensor<4xf32>
}

func.func @branches(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %e = nn.exp %x : tensor<4xf32>
  %y = scf.if %c -> (tensor<4xf32>) {
    %f = nn.exp %x : tensor<4xf32>
    %s = nn.sqrt %x : tensor<4xf32>
    %u = nn.add %f, %s : tensor<4xf32>
    scf.yield %u : tensor<4xf32>
  } else {
    %t = nn.sqrt %x : tensor<4xf32>
    %v = nn.mul %e, %t : tensor<4xf32>
    scf.yield %v : tensor<4xf32>
  }
  %z = nn.add %e, %y : tensor<4xf32>
  func.return %z : tensor<4xf32>
}
