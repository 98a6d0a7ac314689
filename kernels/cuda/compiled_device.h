// TestDevice on the host: the programs as nvcc compiled them, run from their
// PTX by a machine for it (kernels/ptx/machine.h). The PTX is that of the file
// that the environment's CASTOR_PTX names.
//
// It has CUDA's runtime in it, as far as programs that are linked call it: what
// they register, the shapes of their launches, the size and the place of their
// parameters are those of the compiled code.
#ifndef CASTOR_KERNELS_CUDA_COMPILED_DEVICE_H_
#define CASTOR_KERNELS_CUDA_COMPILED_DEVICE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace castor::kernels::cuda {

// Edits the text of a kernel, from ".entry" to its last brace, before its next
// launch; null: as nvcc made it. `name` is the kernel's, mangled. For tests
// that show that a mistake is seen.
using PtxEdit =
    std::function<void(const std::string& name, std::string* kernel)>;
void EditCompiledKernels(PtxEdit edit);

// For each kernel that was launched as nvcc made it, and each barrier in its
// text: whether some launch so far needed it (kernels/ptx/machine.h). Names are
// mangled.
std::map<std::string, std::vector<bool>> NeededBarriersOfCompiledKernels();

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_COMPILED_DEVICE_H_
