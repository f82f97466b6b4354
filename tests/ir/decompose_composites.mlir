// RUN: lamina opt %s -p "decompose-composites" | filecheck %s
// RUN: lamina opt %s -p 'decompose-composites{keep="nn.silu"}' | filecheck %s --check-prefix KEEP
// RUN: lamina opt %s -p 'decompose-composites{only="nn.relu"}' | filecheck %s --check-prefix ONLY

func.func @relu(%x: tensor<?xf32, #nn.dims<["T"]>>) -> tensor<?xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @relu
  // CHECK: %[[ZERO:.*]] = nn.constant {value = 0.000000e+00 : f32}
  // CHECK: nn.max %x, %[[ZERO]]
  // ONLY-NOT: nn.relu
  %y = nn.relu %x : tensor<?xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?xf32, #nn.dims<["T"]>>
}

func.func @silu(%x: tensor<?xf32, #nn.dims<["T"]>>) -> tensor<?xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @silu
  // CHECK: %[[NEG:.*]] = nn.neg %x {lamina.src = ["/act"]}
  // CHECK: %[[EXP:.*]] = nn.exp %[[NEG]]
  // CHECK: %[[SUM:.*]] = nn.add %[[EXP]]
  // CHECK: nn.div %x, %[[SUM]] {lamina.src = ["/act"]}
  // KEEP: nn.silu %x
  // ONLY: nn.silu %x
  %y = nn.silu %x {lamina.src = ["/act"]} : tensor<?xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?xf32, #nn.dims<["T"]>>
}

func.func @embedding(%table: !quant.blocks<"q4_0", 7 : i64, 32 : i64>, %ids: tensor<?xi32, #nn.dims<["T"]>>) -> tensor<?x32xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @embedding
  // CHECK: %[[TABLE:.*]] = quant.dequantize %table
  // CHECK: nn.gather %[[TABLE]], %ids
  %y = nn.embedding %table, %ids : (!quant.blocks<"q4_0", 7 : i64, 32 : i64>, tensor<?xi32, #nn.dims<["T"]>>) -> tensor<?x32xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?x32xf32, #nn.dims<["T"]>>
}
