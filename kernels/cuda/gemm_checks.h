// Checks the arguments of a product on a GPU, beyond MatmulArgs::Check.
#ifndef CASTOR_KERNELS_CUDA_GEMM_CHECKS_H_
#define CASTOR_KERNELS_CUDA_GEMM_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/gemm.h"

namespace castor::kernels::cuda {

// m, n, k >= 1; pointers aligned as gemm.h says.
inline absl::Status CheckGemm(const GemmArgs& args) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("a product [", args.m, ", ", args.k, "] x [", args.k, ", ",
                     args.n, "] on the GPU: ", what));
  };
  if (args.m < 1 || args.n < 1 || args.k < 1) {
    return bad("sizes must be positive");
  }
  if (args.result != args.operands && args.result != DType::kFloat32) {
    return bad("the result is of neither the operands' type nor fp32");
  }
  const struct {
    const char* name;
    const void* pointer;
    bool wanted;
    int64_t alignment;
  } operands[] = {
      {"a", args.a, true, kGemmAlignment},
      {"b", args.b, true, kGemmAlignment},
      {"c", args.c, true, kGemmAlignment},
      {"the bias", args.bias, false, kGemmAlignment},
      {"the workspace", args.workspace, true, kGemmWorkspaceAlignment}};
  for (const auto& operand : operands) {
    if (operand.pointer == nullptr) {
      if (!operand.wanted) continue;
      return bad(absl::StrCat(operand.name, " is missing"));
    }
    if (reinterpret_cast<uintptr_t>(operand.pointer) % operand.alignment != 0) {
      return bad(absl::StrCat(operand.name, " does not lie on a multiple of ",
                              operand.alignment, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_GEMM_CHECKS_H_
