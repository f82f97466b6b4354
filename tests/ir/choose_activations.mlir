// RUN: lamina opt %s -p choose-activations | filecheck %s

// Products of one left operand share its 8-bit form; a float weight keeps its numbers.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %x_q, %x_d, %x_s = quant.quantize %x {lamina.src = ["/q"]}
// CHECK-NEXT:    %a = quant.linear %x_q, %x_d, %x_s, %wq {lamina.src = ["/q"], zero = 0 : i64}
// CHECK-NEXT:    %b = quant.linear %x_q, %x_d, %x_s, %wk
// CHECK-NEXT:    %c = nn.dot_general %x, %wf
// CHECK-NOT:     quant.dequantize

!x = tensor<?x64xf32, #nn.dims<["T"]>>
!y = tensor<?x32xf32, #nn.dims<["T"]>>
!w = !quant.blocks<"q4_1", 32 : i64, 64 : i64>

func.func @forward(%x: !x, %wq: !w {lamina.weight = "q"}, %wk: !w {lamina.weight = "k"}, %wf: tensor<32x64xf32> {lamina.weight = "f"}) -> (!y, !y, !y) {
  %nq = quant.dequantize %wq {zero = 0 : i64} : (!w) -> tensor<32x64xf32>
  %a = nn.dot_general %x, %nq {contract = [[1, 1]], lamina.src = ["/q"]} : (!x, tensor<32x64xf32>) -> !y
  %nk = quant.dequantize %wk {zero = 0 : i64} : (!w) -> tensor<32x64xf32>
  %b = nn.dot_general %x, %nk {contract = [[1, 1]], lamina.src = ["/k"]} : (!x, tensor<32x64xf32>) -> !y
  %c = nn.dot_general %x, %wf {contract = [[1, 1]], lamina.src = ["/f"]} : (!x, tensor<32x64xf32>) -> !y
  func.return %a, %b, %c : !y, !y, !y
}
