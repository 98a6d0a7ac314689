#include "kernels/cast/cast.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status CastArgs::Check() const { return CheckSize("Cast", size); }

}  // namespace castor::kernels
