// A TestDevice on the host that runs the programs as nvcc compiled them: it
// interprets their PTX (kernels/ptx/machine.h), from the file that the
// environment's CASTOR_PTX names.
//
// It implements the parts of CUDA's runtime that linked programs call, so that
// their registration, the shapes of their launches, and the sizes and places of
// their parameters are those of the compiled code.
#ifndef CASTOR_KERNELS_CUDA_COMPILED_DEVICE_H_
#define CASTOR_KERNELS_CUDA_COMPILED_DEVICE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace castor::kernels::cuda {

// Edits the text of a kernel, from ".entry" to its last brace, before its next
// launch; null: no edit. `name` is the kernel's, mangled. For tests that check
// that mistakes are detected.
using PtxEdit =
    std::function<void(const std::string& name, std::string* kernel)>;
void EditCompiledKernels(PtxEdit edit);

// Returns, for each kernel that was launched without edits and each barrier in
// its text, true if a launch so far needed the barrier (kernels/ptx/machine.h).
// Names are mangled.
std::map<std::string, std::vector<bool>> NeededBarriersOfCompiledKernels();

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_COMPILED_DEVICE_H_
