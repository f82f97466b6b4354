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

func.func @softmax(%x: tensor<?x8xf32, #nn.dims<["T"]>>) -> tensor<?x8xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @softmax
  // CHECK: %[[MAX:.*]] = nn.reduce %x {kind = "max", dims = array<i64: 1>}
  // CHECK: %[[ALONG:.*]] = nn.broadcast %[[MAX]] {dims = array<i64: 0>}
  // CHECK: %[[SUB:.*]] = nn.sub %x, %[[ALONG]]
  // CHECK: %[[EXP:.*]] = nn.exp %[[SUB]]
  // CHECK: nn.reduce %[[EXP]] {kind = "add", dims = array<i64: 1>}
  // CHECK: nn.div %[[EXP]]
  %y = nn.softmax %x {axis = 1 : i64} : (tensor<?x8xf32, #nn.dims<["T"]>>) -> tensor<?x8xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?x8xf32, #nn.dims<["T"]>>
}

func.func @rms_norm(%x: tensor<?x8xf32, #nn.dims<["T"]>>, %w: tensor<8xf32>) -> tensor<?x8xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @rms_norm
  // CHECK: %[[SQUARE:.*]] = nn.mul %x, %x
  // CHECK: %[[SUM:.*]] = nn.reduce %[[SQUARE]] {kind = "add"
  // CHECK: %[[N:.*]] = nn.constant {value = 8.000000e+00 : f32}
  // CHECK: nn.div %[[SUM]], %[[N]]
  // CHECK: nn.rsqrt
  %y = nn.rms_norm %x, %w {eps = 1.0e-05 : f32} : (tensor<?x8xf32, #nn.dims<["T"]>>, tensor<8xf32>) -> tensor<?x8xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?x8xf32, #nn.dims<["T"]>>
}

func.func @rope(%x: tensor<?x2x6xf32, #nn.dims<["T"]>>, %cos: tensor<?x2xf32, #nn.dims<["T"]>>, %sin: tensor<?x2xf32, #nn.dims<["T"]>>) -> tensor<?x2x6xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @rope
  // CHECK: nn.slice %x {start = ["0", "0", "0"]}
  // CHECK: %[[A:.*]] = nn.sub
  // CHECK: %[[B:.*]] = nn.add
  // CHECK: %[[TURNED:.*]] = nn.concat %[[A]], %[[B]] {dim = 2 : i64}
  // CHECK: %[[REST:.*]] = nn.slice %x {start = ["0", "0", "4"]}
  // CHECK: nn.concat %[[TURNED]], %[[REST]] {dim = 2 : i64}
  %y = nn.rope %x, %cos, %sin : (tensor<?x2x6xf32, #nn.dims<["T"]>>, tensor<?x2xf32, #nn.dims<["T"]>>, tensor<?x2xf32, #nn.dims<["T"]>>) -> tensor<?x2x6xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?x2x6xf32, #nn.dims<["T"]>>
}

func.func @sequence(%start: tensor<?xi32, #nn.dims<["S + 1"]>>) -> tensor<?xi32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @sequence
  // CHECK: nn.slice %start {start = ["1"]} : (tensor<?xi32, #nn.dims<["S + 1"]>>) -> tensor<?xi32, #nn.dims<["S"]>>
  // CHECK: nn.compare {{.*}} {kind = "le"}
  // CHECK: nn.reduce {{.*}} {kind = "add", dims = array<i64: 1>}
  %y = cache.sequence %start : (tensor<?xi32, #nn.dims<["S + 1"]>>) -> tensor<?xi32, #nn.dims<["T"]>>
  func.return %y : tensor<?xi32, #nn.dims<["T"]>>
}

func.func @linear(%x: tensor<?x32xf32, #nn.dims<["T"]>>, %w: !quant.blocks<"q8_0", 3 : i64, 32 : i64>) -> tensor<?x3xf32, #nn.dims<["T"]>> {
  // CHECK-LABEL: @linear
  // CHECK: nn.abs
  // CHECK: nn.round
  // CHECK: %[[W:.*]] = quant.dequantize %w
  // CHECK: nn.dot_general %{{.*}}, %[[W]] {contract =
  %q, %d, %s = quant.quantize %x : (tensor<?x32xf32, #nn.dims<["T"]>>) -> (tensor<?x32xi8, #nn.dims<["T"]>>, tensor<?x1xf32, #nn.dims<["T"]>>, tensor<?x1xf32, #nn.dims<["T"]>>)
  %y = quant.linear %q, %d, %s, %w {zero = 128 : i64} : (tensor<?x32xi8, #nn.dims<["T"]>>, tensor<?x1xf32, #nn.dims<["T"]>>, tensor<?x1xf32, #nn.dims<["T"]>>, !quant.blocks<"q8_0", 3 : i64, 32 : i64>) -> tensor<?x3xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?x3xf32, #nn.dims<["T"]>>
}
