// Mean over 3x2 windows, strides 2, uneven padding; the last windows reach beyond it.
// Program (i, j, k): four windows along a row j of an image, eight channels. What is outside counts nowhere.
builtin.module {
  tile.kernel @mean_pool_overhang attributes {symbols = ["n0", "n1", "n2", "workers"], grid = ["ceildiv(min(ceildiv(n2 - 1, 2), floordiv(n2 - 1, 2)) + 1, 4)", "min(ceildiv(n1 - 2, 2), floordiv(n1, 2))*n0 + n0", "1"], access = ["read", "write"]} {
  ^bb0(%0: memref<?x?x?x5xf32>, %1: memref<?x5xf32>, %2: index, %3: index, %4: index, %5: index):
    %6 = arith.constant 0 : index
    %7 = arith.constant -1 : index
    %8 = arith.addi %3, %7 : index
    %9 = arith.constant 2 : index
    %10 = arith.divui %8, %9 : index
    %11 = arith.divui %3, %9 : index
    %12 = arith.minsi %10, %11 : index
    %13 = arith.constant 1 : index
    %14 = arith.addi %12, %13 : index
    %15 = arith.constant 4 : index
    %16 = arith.divui %4, %9 : index
    %17 = arith.addi %4, %7 : index
    %18 = arith.divui %17, %9 : index
    %19 = arith.minsi %16, %18 : index
    %20 = arith.addi %19, %13 : index
    %21 = arith.constant 8 : index
    %22 = arith.constant dense<0.000000e+00> : vector<4x8xf32>
    %23 = arith.constant 7 : index
    %24 = arith.constant 3 : index
    %25 = tile.splat %6 : (index) -> vector<4xindex>
    %26 = tile.splat %24 : (index) -> vector<4xindex>
    %27 = tile.splat %9 : (index) -> vector<4xindex>
    %28 = tile.splat %13 : (index) -> vector<4xindex>
    %29 = tile.program_id {dim = 1 : i64}
    %30 = arith.remui %29, %14 : index
    %31 = arith.divui %29, %14 : index
    %32 = tile.program_id {dim = 0 : i64}
    %33 = arith.muli %32, %15 : index
    %34 = arith.muli %30, %9 : index
    %35 = arith.subi %34, %13 : index
    %36 = arith.muli %33, %9 : index
    %37 = arith.muli %29, %20 : index
    %38 = arith.addi %37, %33 : index
    %39 = arith.addi %37, %20 : index
    %40 = tile.program_id {dim = 2 : i64}
    %41 = arith.muli %40, %21 : index
    %42 = tile.compare %35, %6 {kind = "ge"} : (index, index) -> i1
    %43 = arith.addi %35, %9 : index
    %44 = tile.compare %43, %3 {kind = "lt"} : (index, index) -> i1
    %45 = arith.addi %36, %23 : index
    %46 = tile.compare %45, %4 {kind = "lt"} : (index, index) -> i1
    %47 = arith.andi %42, %44 : i1
    %48 = arith.andi %47, %46 : i1
    %49 = scf.if %48 -> (vector<4x8xf32>) {
      %50 = scf.for %51 = %6 to %24 step %13 iter_args(%52 = %22) -> (vector<4x8xf32>) {
        %53 = scf.for %54 = %6 to %9 step %13 iter_args(%55 = %52) -> (vector<4x8xf32>) {
          %56 = arith.addi %35, %51 : index
          %57 = arith.addi %36, %54 : index
          %58 = tile.load %0[%31, %56, %57, %41] {shape = array<i64: 1, 1, 4, 8>, step = array<i64: 1, 1, 2, 1>, in_bounds = array<i64: 0, 1, 2>, pad = 0.000000e+00 : f32} : memref<?x?x?x5xf32>[index, index, index, index] -> vector<4x8xf32>
          %59 = arith.addf %55, %58 : vector<4x8xf32>
          scf.yield %59 : vector<4x8xf32>
        }
        scf.yield %53 : vector<4x8xf32>
      }
      scf.yield %50 : vector<4x8xf32>
    } else {
      %60 = scf.for %61 = %6 to %24 step %13 iter_args(%62 = %22) -> (vector<4x8xf32>) {
        %63 = scf.for %64 = %6 to %9 step %13 iter_args(%65 = %62) -> (vector<4x8xf32>) {
          %66 = arith.addi %35, %61 : index
          %67 = arith.addi %36, %64 : index
          %68 = tile.load %0[%31, %66, %67, %41] {shape = array<i64: 1, 1, 4, 8>, step = array<i64: 1, 1, 2, 1>, in_bounds = array<i64: 0>, pad = 0.000000e+00 : f32} : memref<?x?x?x5xf32>[index, index, index, index] -> vector<4x8xf32>
          %69 = arith.addf %65, %68 : vector<4x8xf32>
          scf.yield %69 : vector<4x8xf32>
        }
        scf.yield %63 : vector<4x8xf32>
      }
      scf.yield %60 : vector<4x8xf32>
    }
    %70 = tile.splat %35 : (index) -> vector<4xindex>
    %71 = tile.splat %3 : (index) -> vector<4xindex>
    %72 = arith.subi %71, %70 : vector<4xindex>
    %73 = arith.maxsi %72, %25 : vector<4xindex>
    %74 = arith.minsi %73, %26 : vector<4xindex>
    %75 = tile.splat %6 : (index) -> vector<4xindex>
    %76 = arith.subi %75, %70 : vector<4xindex>
    %77 = arith.maxsi %76, %25 : vector<4xindex>
    %78 = arith.minsi %77, %26 : vector<4xindex>
    %79 = arith.subi %74, %78 : vector<4xindex>
    %80 = tile.splat %36 : (index) -> vector<4xindex>
    %81 = tile.iota : vector<4xindex>
    %82 = arith.muli %81, %27 : vector<4xindex>
    %83 = arith.addi %82, %80 : vector<4xindex>
    %84 = tile.splat %4 : (index) -> vector<4xindex>
    %85 = arith.subi %84, %83 : vector<4xindex>
    %86 = arith.maxsi %85, %25 : vector<4xindex>
    %87 = arith.minsi %86, %27 : vector<4xindex>
    %88 = arith.muli %79, %87 : vector<4xindex>
    %89 = arith.muli %88, %28 : vector<4xindex>
    %90 = tile.cast %89 : (vector<4xindex>) -> vector<4xi32>
    %91 = tile.cast %90 : (vector<4xi32>) -> vector<4xf32>
    %92 = tile.broadcast %91 {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x8xf32>
    %93 = arith.divf %49, %92 : vector<4x8xf32>
    tile.store %93, %1[%38, %41] limit[%39] {shape = array<i64: 4, 8>, limit_dims = array<i64: 0>, unique} : vector<4x8xf32>, memref<?x5xf32>[index, index]
    tile.return
  }
}
