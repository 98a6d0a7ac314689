#include "python/shim/meeting.h"

#include <c10/util/Exception.h>

#include <utility>

#include "python/shim/core_library.h"

namespace castor::shim {

Meeting::Meeting(bool port_is_stores) {
  const castor_status met = Core().meet(port_is_stores ? 1 : 0, &meeting_);
  TORCH_CHECK(met == CASTOR_OK, Core().error());
  rank_ = Core().meeting_rank(meeting_);
  world_size_ = Core().meeting_world_size(meeting_);
}

Meeting::~Meeting() { End("the rank has left the scope"); }

void Meeting::Broadcast(const std::string& what, int root,
                        const at::Tensor& tensor) {
  TORCH_CHECK(meeting_ != nullptr, "castor: the ranks' meeting is over");
  const c10::Storage& storage = tensor.storage();
  const castor_status sent = Core().meeting_broadcast(
      meeting_, what.c_str(), root, storage.mutable_data(),
      static_cast<int64_t>(storage.nbytes()));
  TORCH_CHECK(sent == CASTOR_OK, Core().error());
}

void Meeting::End(const std::optional<std::string>& failure) {
  Core().meeting_end(std::exchange(meeting_, nullptr),
                     failure ? failure->c_str() : nullptr);
}

}  // namespace castor::shim
