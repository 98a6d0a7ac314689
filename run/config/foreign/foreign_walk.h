// Goes through a foreign document, key by key.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_WALK_H_
#define CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_WALK_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "run/config/foreign/foreign_key.h"

namespace castor {

// The row of the key at `path`; null: there is none.
const ForeignKey* FindForeignKey(absl::Span<const ForeignKey> keys, char system,
                                 absl::string_view path);

// Calls `visit` once for each key that has a row, and for each that has neither
// a row nor one below it, whose row is null then. What is in an object has rows
// of its own where there are any below the object's path. Nulls are left out.
void WalkForeign(
    absl::Span<const ForeignKey> keys, char system, const Json& document,
    absl::FunctionRef<void(const std::string& path, const Json& value,
                           const ForeignKey* row)>
        visit);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_WALK_H_
