#include "runtime/nn/zero_init.h"

#include "base/check.h"

namespace castor {
namespace {

thread_local Engine* current_engine = nullptr;

}  // namespace

ZeroInit::ZeroInit(Engine& engine) : outer_(current_engine) {
  current_engine = &engine;
}

ZeroInit::~ZeroInit() { current_engine = outer_; }

Engine* ZeroInit::current() { return current_engine; }

Parameter& MakeParameter(absl::string_view name, const Shape& shape,
                         Initializer init) {
  CASTOR_CHECK(current_engine != nullptr &&
               "modules are made inside a castor::ZeroInit scope");
  return current_engine->AddParameter(name, shape, init);
}

}  // namespace castor
