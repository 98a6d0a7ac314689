// ZeroInit: within its scope, modules make their parameters inside chunks.
//
//   castor::ZeroInit scope(engine);
//   MyModel model(config);   // its modules' parameters register with `engine`
//
// A parameter made in the scope has a name, a shape and initial values that are
// a function of the run's seed, its name and the element, but no bytes: those
// appear chunk by chunk where the placement policy wants them, never as a
// whole model in one place.
#ifndef CASTOR_RUNTIME_NN_ZERO_INIT_H_
#define CASTOR_RUNTIME_NN_ZERO_INIT_H_

#include "runtime/autograd/engine.h"

namespace castor {

// Scopes nest; the innermost counts. One thread's scopes are its own.
class ZeroInit {
 public:
  explicit ZeroInit(Engine& engine);
  ~ZeroInit();
  ZeroInit(const ZeroInit&) = delete;
  ZeroInit& operator=(const ZeroInit&) = delete;

  // The engine of the innermost scope; null outside of any.
  static Engine* current();

 private:
  Engine* const outer_;
};

// Modules' constructors call it. Outside of any scope it stops the program: a
// module without an engine has nowhere to live. Other mistakes are kept by the
// engine (Engine::construction_status) and returned by Trainer::Create.
Parameter& MakeParameter(absl::string_view name, const Shape& shape,
                         Initializer init);

}  // namespace castor

#endif  // CASTOR_RUNTIME_NN_ZERO_INIT_H_
