// RUN: lamina opt %s -p choose-activations | filecheck %s

// Products of one left operand share its 8-bit form; a float weight keeps its numbers. A product
// that no other depends on has a left operand of two quants a number.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %x_q, %x_d, %x_s = quant.quantize %x {lamina.src = ["/q"]} {{.*}}-> (tensor<?x64xi8,
// CHECK-NEXT:    %a = quant.linear %x_q, %x_d, %x_s, %wq {lamina.src = ["/q"], zero = 0 : i64}
// CHECK-NEXT:    %b = quant.linear %x_q, %x_d, %x_s, %wk
// CHECK-NEXT:    %c = nn.dot_general %x, %wf
// CHECK-NEXT:    %ab = nn.add %a, %b
// CHECK-NEXT:    %ab_q, %ab_d, %ab_s = quant.quantize %ab {{.*}}-> (tensor<?x64xi8, {{.*}}, tensor<?x2xf32, {{.*}}, tensor<?x1xf32,
// CHECK-NEXT:    %d = quant.linear %ab_q, %ab_d, %ab_s, %wo
// CHECK-NOT:     quant.dequantize

!x = tensor<?x64xf32, #nn.dims<["T"]>>
!y = tensor<?x32xf32, #nn.dims<["T"]>>
!w = !quant.blocks<"q4_1", 32 : i64, 64 : i64>
!o = !quant.blocks<"q4_1", 32 : i64, 32 : i64>

func.func @forward(%x: !x, %wq: !w {lamina.weight = "q"}, %wk: !w {lamina.weight = "k"}, %wf: tensor<32x64xf32> {lamina.weight = "f"}, %wo: !o {lamina.weight = "o"}) -> (!y, !y) {
  %nq = quant.dequantize %wq {zero = 0 : i64} : (!w) -> tensor<32x64xf32>
  %a = nn.dot_general %x, %nq {contract = [[1, 1]], lamina.src = ["/q"]} : (!x, tensor<32x64xf32>) -> !y
  %nk = quant.dequantize %wk {zero = 0 : i64} : (!w) -> tensor<32x64xf32>
  %b = nn.dot_general %x, %nk {contract = [[1, 1]], lamina.src = ["/k"]} : (!x, tensor<32x64xf32>) -> !y
  %c = nn.dot_general %x, %wf {contract = [[1, 1]], lamina.src = ["/f"]} : (!x, tensor<32x64xf32>) -> !y
  %ab = nn.add %a, %b : !y
  %no = quant.dequantize %wo {zero = 0 : i64} : (!o) -> tensor<32x32xf32>
  %d = nn.dot_general %ab, %no {contract = [[1, 1]], lamina.src = ["/o"]} : (!y, tensor<32x32xf32>) -> !y
  func.return %c, %d : !y, !y
}
