// The sine and cosine of fp32 angles, with the same bits on every machine.
#ifndef CASTOR_MODELS_ROPE_SIN_COS_H_
#define CASTOR_MODELS_ROPE_SIN_COS_H_

namespace castor::models {

// The functions of `angle` in [0, 2^25), in radians. They are formed in double,
// in sums and products alone, which every machine rounds alike, to within 2^-50
// of the result, and rounded to fp32 once: that gives the nearest fp32 number,
// but for one angle in some tens of millions.
void SinCos(float angle, float* sin, float* cos);

}  // namespace castor::models

#endif  // CASTOR_MODELS_ROPE_SIN_COS_H_
