#include "kernels/add/add.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status AddArgs::Check() const { return CheckSize("Add", size); }

}  // namespace castor::kernels
