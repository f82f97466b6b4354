// A few rows times packed weights of 4 bits: threads have blocks of K apart, for partial sums.
// Program (i, j): 16 columns and 2 rows; three of nine partial sums at a time, added in order.
builtin.module {
  tile.kernel @packed_matmul_split attributes {symbols = ["n0", "workers"], grid = ["2", "ceildiv(n0, 2)"], access = ["read", "read", "read", "read", "write"], schedule = #tile.schedule<{m = 2 : i64, n = 16 : i64, threads = 64 : i64, parts = 3 : i64}>, work = #tile.work<{bytes = "2304*n0 + 10880", float = "34816*n0"}>} {
  ^bb0(%0: memref<2x17x4x16x4xi8>, %1: memref<2x17x16xf16>, %2: memref<2x17x16xf16>, %3: memref<?x544xf32>, %4: memref<?x32xf32>, %5: index, %6: index):
    %7 = arith.constant 0 : index
    %8 = arith.constant 2 : index
    %9 = arith.constant 1 : index
    %10 = tile.scratch : memref<2x3x36xf32>
    %11 = tile.scratch : memref<9x2x16xf32>
    %12 = arith.constant 9 : index
    %13 = arith.constant 3 : index
    %14 = arith.constant dense<0.000000e+00> : vector<3x2x1x16xf32>
    %15 = arith.constant 32 : index
    %16 = arith.constant dense<15> : vector<1x3x1x16x4xi8>
    %17 = arith.constant dense<4> : vector<1x3x1x16x4xi8>
    %18 = arith.constant 8 : index
    %19 = arith.constant 16 : index
    %20 = arith.constant 24 : index
    %21 = arith.constant dense<0.000000e+00> : vector<2x3x32xf32>
    %22 = arith.constant dense<0.000000e+00> : vector<1x3x16xf32>
    %23 = arith.constant dense<0.000000e+00> : vector<2x16xf32>
    %24 = tile.program_id {dim = 0 : i64}
    %25 = tile.program_id {dim = 1 : i64}
    %26 = arith.muli %25, %8 : index
    %27 = tile.iota : vector<2xindex>
    %28 = tile.splat %26 : (index) -> vector<2xindex>
    %29 = arith.addi %27, %28 : vector<2xindex>
    %30 = arith.subi %5, %9 : index
    %31 = tile.splat %30 : (index) -> vector<2xindex>
    %32 = arith.minsi %29, %31 : vector<2xindex>
    scf.for %33 = %7 to %12 step %13 {
      %34 = scf.for %35 = %7 to %9 step %9 iter_args(%36 = %14) -> (vector<3x2x1x16xf32>) {
        %37 = arith.muli %35, %12 : index
        %38 = arith.addi %37, %33 : index
        %39 = tile.load %0[%24, %38, %7, %7, %7] {shape = array<i64: 1, 3, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x17x4x16x4xi8>[index, index, index, index, index] -> vector<1x3x4x16x4xi8>
        %40 = tile.load %1[%24, %38, %7] {shape = array<i64: 1, 3, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<1x3x16xf16>
        %41 = tile.load %2[%24, %38, %7] {shape = array<i64: 1, 3, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<1x3x16xf16>
        %42 = arith.muli %38, %15 : index
        %43 = tile.load %3[%32, %42] {shape = array<i64: 2, 96>, in_bounds = array<i64: 0, 1>} : memref<?x544xf32>[vector<2xindex>, index] -> vector<2x96xf32>
        %44 = tile.reshape %43 : (vector<2x96xf32>) -> vector<2x3x32xf32>
        tile.store %44, %10[%7, %7, %7] {shape = array<i64: 2, 3, 32>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<2x3x32xf32>, memref<2x3x36xf32>[index, index, index]
        %45 = tile.load %10[%7, %7, %7] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
        %46 = tile.slice %39 {start = array<i64: 0, 0, 0, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
        %47 = arith.andi %46, %16 : vector<1x3x1x16x4xi8>
        %48 = arith.shrui %46, %17 : vector<1x3x1x16x4xi8>
        %49 = tile.reshape %47 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %50 = tile.reshape %48 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %51 = tile.join %49, %50 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
        %52 = tile.reshape %51 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
        %53 = tile.transpose %52 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
        %54 = tile.reshape %53 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
        %55 = tile.transpose %54 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
        %56 = tile.cast %55 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
        %57 = tile.reshape %40 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %58 = tile.reshape %57 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %59 = tile.cast %58 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %60 = tile.broadcast %59 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %61 = tile.reshape %41 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %62 = tile.reshape %61 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %63 = tile.cast %62 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %64 = tile.broadcast %63 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %65 = math.fma %56, %60, %64 : vector<1x3x8x16xf32>
        %66 = tile.dot %45, %65, %36 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
        %67 = tile.load %10[%7, %7, %18] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
        %68 = tile.slice %39 {start = array<i64: 0, 0, 1, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
        %69 = arith.andi %68, %16 : vector<1x3x1x16x4xi8>
        %70 = arith.shrui %68, %17 : vector<1x3x1x16x4xi8>
        %71 = tile.reshape %69 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %72 = tile.reshape %70 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %73 = tile.join %71, %72 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
        %74 = tile.reshape %73 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
        %75 = tile.transpose %74 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
        %76 = tile.reshape %75 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
        %77 = tile.transpose %76 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
        %78 = tile.cast %77 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
        %79 = tile.reshape %40 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %80 = tile.reshape %79 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %81 = tile.cast %80 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %82 = tile.broadcast %81 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %83 = tile.reshape %41 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %84 = tile.reshape %83 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %85 = tile.cast %84 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %86 = tile.broadcast %85 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %87 = math.fma %78, %82, %86 : vector<1x3x8x16xf32>
        %88 = tile.dot %67, %87, %66 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
        %89 = tile.load %10[%7, %7, %19] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
        %90 = tile.slice %39 {start = array<i64: 0, 0, 2, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
        %91 = arith.andi %90, %16 : vector<1x3x1x16x4xi8>
        %92 = arith.shrui %90, %17 : vector<1x3x1x16x4xi8>
        %93 = tile.reshape %91 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %94 = tile.reshape %92 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %95 = tile.join %93, %94 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
        %96 = tile.reshape %95 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
        %97 = tile.transpose %96 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
        %98 = tile.reshape %97 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
        %99 = tile.transpose %98 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
        %100 = tile.cast %99 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
        %101 = tile.reshape %40 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %102 = tile.reshape %101 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %103 = tile.cast %102 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %104 = tile.broadcast %103 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %105 = tile.reshape %41 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %106 = tile.reshape %105 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %107 = tile.cast %106 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %108 = tile.broadcast %107 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %109 = math.fma %100, %104, %108 : vector<1x3x8x16xf32>
        %110 = tile.dot %89, %109, %88 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
        %111 = tile.load %10[%7, %7, %20] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
        %112 = tile.slice %39 {start = array<i64: 0, 0, 3, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
        %113 = arith.andi %112, %16 : vector<1x3x1x16x4xi8>
        %114 = arith.shrui %112, %17 : vector<1x3x1x16x4xi8>
        %115 = tile.reshape %113 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %116 = tile.reshape %114 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
        %117 = tile.join %115, %116 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
        %118 = tile.reshape %117 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
        %119 = tile.transpose %118 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
        %120 = tile.reshape %119 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
        %121 = tile.transpose %120 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
        %122 = tile.cast %121 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
        %123 = tile.reshape %40 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %124 = tile.reshape %123 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %125 = tile.cast %124 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %126 = tile.broadcast %125 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %127 = tile.reshape %41 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
        %128 = tile.reshape %127 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
        %129 = tile.cast %128 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
        %130 = tile.broadcast %129 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
        %131 = math.fma %122, %126, %130 : vector<1x3x8x16xf32>
        %132 = tile.dot %111, %131, %110 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
        scf.yield %132 : vector<3x2x1x16xf32>
      }
      %133 = arith.addi %33, %18 : index
      %134 = arith.subi %9, %33 : index
      %135 = tile.load %0[%24, %133, %7, %7, %7] {shape = array<i64: 1, 3, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x17x4x16x4xi8>[index, index, index, index, index] -> vector<1x3x4x16x4xi8>
      %136 = tile.load %1[%24, %133, %7] {shape = array<i64: 1, 3, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<1x3x16xf16>
      %137 = tile.load %2[%24, %133, %7] {shape = array<i64: 1, 3, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<1x3x16xf16>
      %138 = arith.muli %133, %15 : index
      %139 = tile.load %3[%32, %138] {shape = array<i64: 2, 96>, in_bounds = array<i64: 0, 1>} : memref<?x544xf32>[vector<2xindex>, index] -> vector<2x96xf32>
      %140 = tile.reshape %139 : (vector<2x96xf32>) -> vector<2x3x32xf32>
      %141 = tile.iota : vector<3xindex>
      %142 = tile.splat %134 : (index) -> vector<3xindex>
      %143 = tile.compare %141, %142 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %144 = tile.broadcast %143 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<2x3x32xi1>
      %145 = tile.select %144, %140, %21 : (vector<2x3x32xi1>, vector<2x3x32xf32>, vector<2x3x32xf32>) -> vector<2x3x32xf32>
      tile.store %145, %10[%7, %7, %7] {shape = array<i64: 2, 3, 32>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<2x3x32xf32>, memref<2x3x36xf32>[index, index, index]
      %146 = tile.load %10[%7, %7, %7] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
      %147 = tile.slice %135 {start = array<i64: 0, 0, 0, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
      %148 = arith.andi %147, %16 : vector<1x3x1x16x4xi8>
      %149 = arith.shrui %147, %17 : vector<1x3x1x16x4xi8>
      %150 = tile.reshape %148 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %151 = tile.reshape %149 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %152 = tile.join %150, %151 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
      %153 = tile.reshape %152 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
      %154 = tile.transpose %153 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
      %155 = tile.reshape %154 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
      %156 = tile.transpose %155 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
      %157 = tile.cast %156 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
      %158 = tile.reshape %136 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %159 = tile.reshape %158 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %160 = tile.cast %159 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %161 = tile.iota : vector<3xindex>
      %162 = tile.splat %134 : (index) -> vector<3xindex>
      %163 = tile.compare %161, %162 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %164 = tile.broadcast %163 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %165 = tile.select %164, %160, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %166 = tile.broadcast %165 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %167 = tile.reshape %137 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %168 = tile.reshape %167 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %169 = tile.cast %168 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %170 = tile.iota : vector<3xindex>
      %171 = tile.splat %134 : (index) -> vector<3xindex>
      %172 = tile.compare %170, %171 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %173 = tile.broadcast %172 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %174 = tile.select %173, %169, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %175 = tile.broadcast %174 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %176 = math.fma %157, %166, %175 : vector<1x3x8x16xf32>
      %177 = tile.dot %146, %176, %34 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
      %178 = tile.load %10[%7, %7, %18] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
      %179 = tile.slice %135 {start = array<i64: 0, 0, 1, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
      %180 = arith.andi %179, %16 : vector<1x3x1x16x4xi8>
      %181 = arith.shrui %179, %17 : vector<1x3x1x16x4xi8>
      %182 = tile.reshape %180 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %183 = tile.reshape %181 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %184 = tile.join %182, %183 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
      %185 = tile.reshape %184 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
      %186 = tile.transpose %185 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
      %187 = tile.reshape %186 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
      %188 = tile.transpose %187 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
      %189 = tile.cast %188 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
      %190 = tile.reshape %136 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %191 = tile.reshape %190 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %192 = tile.cast %191 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %193 = tile.iota : vector<3xindex>
      %194 = tile.splat %134 : (index) -> vector<3xindex>
      %195 = tile.compare %193, %194 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %196 = tile.broadcast %195 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %197 = tile.select %196, %192, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %198 = tile.broadcast %197 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %199 = tile.reshape %137 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %200 = tile.reshape %199 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %201 = tile.cast %200 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %202 = tile.iota : vector<3xindex>
      %203 = tile.splat %134 : (index) -> vector<3xindex>
      %204 = tile.compare %202, %203 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %205 = tile.broadcast %204 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %206 = tile.select %205, %201, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %207 = tile.broadcast %206 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %208 = math.fma %189, %198, %207 : vector<1x3x8x16xf32>
      %209 = tile.dot %178, %208, %177 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
      %210 = tile.load %10[%7, %7, %19] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
      %211 = tile.slice %135 {start = array<i64: 0, 0, 2, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
      %212 = arith.andi %211, %16 : vector<1x3x1x16x4xi8>
      %213 = arith.shrui %211, %17 : vector<1x3x1x16x4xi8>
      %214 = tile.reshape %212 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %215 = tile.reshape %213 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %216 = tile.join %214, %215 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
      %217 = tile.reshape %216 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
      %218 = tile.transpose %217 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
      %219 = tile.reshape %218 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
      %220 = tile.transpose %219 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
      %221 = tile.cast %220 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
      %222 = tile.reshape %136 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %223 = tile.reshape %222 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %224 = tile.cast %223 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %225 = tile.iota : vector<3xindex>
      %226 = tile.splat %134 : (index) -> vector<3xindex>
      %227 = tile.compare %225, %226 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %228 = tile.broadcast %227 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %229 = tile.select %228, %224, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %230 = tile.broadcast %229 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %231 = tile.reshape %137 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %232 = tile.reshape %231 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %233 = tile.cast %232 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %234 = tile.iota : vector<3xindex>
      %235 = tile.splat %134 : (index) -> vector<3xindex>
      %236 = tile.compare %234, %235 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %237 = tile.broadcast %236 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %238 = tile.select %237, %233, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %239 = tile.broadcast %238 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %240 = math.fma %221, %230, %239 : vector<1x3x8x16xf32>
      %241 = tile.dot %210, %240, %209 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
      %242 = tile.load %10[%7, %7, %20] {shape = array<i64: 2, 3, 8>, in_bounds = array<i64: 0, 1, 2>} : memref<2x3x36xf32>[index, index, index] -> vector<2x3x8xf32>
      %243 = tile.slice %135 {start = array<i64: 0, 0, 3, 0, 0>} : (vector<1x3x4x16x4xi8>) -> vector<1x3x1x16x4xi8>
      %244 = arith.andi %243, %16 : vector<1x3x1x16x4xi8>
      %245 = arith.shrui %243, %17 : vector<1x3x1x16x4xi8>
      %246 = tile.reshape %244 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %247 = tile.reshape %245 : (vector<1x3x1x16x4xi8>) -> vector<1x3x1x1x16x4xi8>
      %248 = tile.join %246, %247 {dim = 3 : i64} : (vector<1x3x1x1x16x4xi8>, vector<1x3x1x1x16x4xi8>) -> vector<1x3x1x2x16x4xi8>
      %249 = tile.reshape %248 : (vector<1x3x1x2x16x4xi8>) -> vector<1x3x2x16x4xi8>
      %250 = tile.transpose %249 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<1x3x2x16x4xi8>) -> vector<1x3x16x2x4xi8>
      %251 = tile.reshape %250 : (vector<1x3x16x2x4xi8>) -> vector<1x3x16x8xi8>
      %252 = tile.transpose %251 {perm = array<i64: 0, 1, 3, 2>} : (vector<1x3x16x8xi8>) -> vector<1x3x8x16xi8>
      %253 = tile.cast %252 {unsigned} : (vector<1x3x8x16xi8>) -> vector<1x3x8x16xf32>
      %254 = tile.reshape %136 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %255 = tile.reshape %254 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %256 = tile.cast %255 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %257 = tile.iota : vector<3xindex>
      %258 = tile.splat %134 : (index) -> vector<3xindex>
      %259 = tile.compare %257, %258 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %260 = tile.broadcast %259 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %261 = tile.select %260, %256, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %262 = tile.broadcast %261 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %263 = tile.reshape %137 : (vector<1x3x16xf16>) -> vector<1x3x1x16xf16>
      %264 = tile.reshape %263 : (vector<1x3x1x16xf16>) -> vector<1x3x16xf16>
      %265 = tile.cast %264 : (vector<1x3x16xf16>) -> vector<1x3x16xf32>
      %266 = tile.iota : vector<3xindex>
      %267 = tile.splat %134 : (index) -> vector<3xindex>
      %268 = tile.compare %266, %267 {kind = "ge"} : (vector<3xindex>, vector<3xindex>) -> vector<3xi1>
      %269 = tile.broadcast %268 {dims = array<i64: 1>} : (vector<3xi1>) -> vector<1x3x16xi1>
      %270 = tile.select %269, %265, %22 : (vector<1x3x16xi1>, vector<1x3x16xf32>, vector<1x3x16xf32>) -> vector<1x3x16xf32>
      %271 = tile.broadcast %270 {dims = array<i64: 0, 1, 3>} : (vector<1x3x16xf32>) -> vector<1x3x8x16xf32>
      %272 = math.fma %253, %262, %271 : vector<1x3x8x16xf32>
      %273 = tile.dot %242, %272, %241 {tile.layout = [#tile.layout<[[4 : i64, 4 : i64], [3 : i64, 32 : i64]], [[4 : i64, 1 : i64], [2 : i64, 16 : i64]]>], contract = [[2 : i64, 2 : i64]], batch = [[1 : i64, 1 : i64]]} : (vector<2x3x8xf32>, vector<1x3x8x16xf32>, vector<3x2x1x16xf32>) -> vector<3x2x1x16xf32>
      %274 = tile.reshape %273 : (vector<3x2x1x16xf32>) -> vector<3x2x16xf32>
      tile.store %274, %11[%33, %7, %7] {shape = array<i64: 3, 2, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<3x2x16xf32>, memref<9x2x16xf32>[index, index, index]
    }
    %275 = scf.for %276 = %7 to %12 step %9 iter_args(%277 = %23) -> (vector<2x16xf32>) {
      %278 = tile.load %11[%276, %7, %7] {shape = array<i64: 1, 2, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<9x2x16xf32>[index, index, index] -> vector<1x2x16xf32>
      %279 = tile.reshape %278 : (vector<1x2x16xf32>) -> vector<2x16xf32>
      %280 = arith.addf %277, %279 : vector<2x16xf32>
      scf.yield %280 : vector<2x16xf32>
    }
    %281 = arith.muli %24, %19 : index
    tile.store %275, %4[%26, %281] {shape = array<i64: 2, 16>, in_bounds = array<i64: 1>, unique} : vector<2x16xf32>, memref<?x32xf32>[index, index]
    tile.return
  }
}
