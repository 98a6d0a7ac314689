// The parser of one kernel's text.
#ifndef CASTOR_KERNELS_PTX_PARSER_H_
#define CASTOR_KERNELS_PTX_PARSER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

// Fills `program`, whose text is the kernel's, from ".entry" to its last brace.
// `header` is the module's text before its first kernel. Unimplemented: names
// the text that it does not know.
absl::Status ParseKernel(absl::string_view header, Program* program);

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_PARSER_H_
