#include "python/shim/core_library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace castor::shim {
namespace {

CoreLibrary core;
bool loaded = false;

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw std::runtime_error(std::string("castor's core lacks ") + name +
                             ": install castor again, with its own core");
  }
}

}  // namespace

void LoadCore(const std::string& path) {
  if (loaded) return;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw std::runtime_error(std::string("castor's core cannot be loaded: ") +
                             (reason != nullptr ? reason : path.c_str()));
  }
#define CASTOR_FIND(name) Find(library, "castor_" #name, core.name);
  CASTOR_CORE_FUNCTIONS(CASTOR_FIND)
#undef CASTOR_FIND
  loaded = true;
}

const CoreLibrary& Core() { return core; }

}  // namespace castor::shim
