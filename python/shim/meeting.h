// castor_meeting, for Python: the ranks that this process was started with,
// before there is a run.
#ifndef CASTOR_PYTHON_SHIM_MEETING_H_
#define CASTOR_PYTHON_SHIM_MEETING_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "client/interface/castor_client.h"

namespace castor::shim {

// Errors are c10::Error.
class Meeting {
 public:
  // Joins the ranks, which all call it together. `port_is_stores`: as
  // castor_open's.
  explicit Meeting(bool port_is_stores);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting();

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  // Makes the bytes of the tensor's storage, on the CPU, those of rank `root`.
  void Broadcast(const std::string& what, int root, const at::Tensor& tensor);
  // Ends the meeting, and waits until all ranks do; with `failure` the others'
  // calls fail. Afterwards only this may be called.
  void End(const std::optional<std::string>& failure);

 private:
  castor_meeting* meeting_ = nullptr;  // null after End
  int rank_ = 0;
  int world_size_ = 1;
};

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_MEETING_H_
