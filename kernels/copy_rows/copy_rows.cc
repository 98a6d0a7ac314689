#include "kernels/copy_rows/copy_rows.h"

#include "absl/strings/str_cat.h"
#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status CopyRowsArgs::Check() const {
  absl::Status status = CheckSize("CopyRows (rows)", rows);
  status.Update(CheckSize("CopyRows (columns)", columns));
  if (!status.ok()) return status;
  if (x_stride >= columns && y_stride >= columns) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("CopyRows: rows of ", columns, " elements lie ", x_stride,
                   " and ", y_stride, " elements apart: they would overlap"));
}

}  // namespace castor::kernels
