#include "research/tight_bound.h"

#include "memory/plan/blocks/offloaded_blocks.h"
#include "research/turns.h"
#include "research/windows.h"

namespace castor {

TightBound::TightBound(const PlanRequest& request) : LinearBound(request) {
  Turns(this).Add();
  // Windows know nothing of activations that leave and come back.
  if (!OffloadsActivations(*request.trace)) {
    windows_ = std::make_unique<Windows>(this);
  }
}

TightBound::~TightBound() = default;

void TightBound::SetMore(const Plan& plan, const PlanCost& cost,
                         std::vector<double>* point) const {
  if (windows_ != nullptr) windows_->SetIn(plan, cost, point);
}

}  // namespace castor
