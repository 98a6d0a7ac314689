// Small kernels written for the machine's tests.
#ifndef CASTOR_KERNELS_PTX_TEST_KERNEL_H_
#define CASTOR_KERNELS_PTX_TEST_KERNEL_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/ptx/machine.h"
#include "kernels/ptx/memory.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

// A kernel of one parameter, an array in global memory, whose address is in
// %rd1; %r1 is the thread and %rd2 its place of 8 bytes in the array.
inline std::string Kernel(const std::string& body) {
  return absl::StrCat(R"(
.version 9.0
.target sm_80
.address_size 64

.extern .shared .align 16 .b8 memory[];

.visible .entry kernel(
.param .u64 kernel_param_0
)
.maxntid 256, 1, 1
{
.reg .pred %p<9>;
.reg .b16 %rs<9>;
.reg .f32 %f<33>;
.reg .b32 %r<33>;
.reg .f64 %fd<9>;
.reg .b64 %rd<9>;
.loc	1 26 0

ld.param.u64 %rd3, [kernel_param_0];
cvta.to.global.u64 %rd1, %rd3;
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 8;
add.s64 %rd2, %rd1, %rd2;
)",
                      body, "\nret;\n}\n");
}

// An array that a kernel works on.
struct Array {
  explicit Array(int64_t size) : values(size) {
    memory.Add(values.data(), size * 8);
  }

  absl::Status Run(const std::string& text, Launch launch = {},
                   NeededBarriers* needed = nullptr) {
    auto library = Library::Create(text);
    if (!library.ok()) return library.status();
    auto program = library->Find("kernel");
    if (!program.ok()) return program.status();
    const uint64_t* const address = values.data();
    uint8_t parameters[8];
    std::memcpy(parameters, &address, 8);
    return ptx::Run(*program, launch, parameters, memory, needed);
  }

  std::vector<uint64_t> values;
  GlobalMemory memory;
};

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_TEST_KERNEL_H_
