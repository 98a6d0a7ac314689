#include "kernels/ptx/operations.h"

#include "kernels/ptx/operation_table.h"

namespace castor::kernels::ptx {

const Operation* FindOperation(absl::string_view name) {
  static const OperationTable* const table = [] {
    auto* made = new OperationTable();
    AddIntegerOperations(made);
    AddFloatOperations(made);
    AddConversions(made);
    AddMemoryOperations(made);
    AddWarpOperations(made);
    return made;
  }();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace castor::kernels::ptx
