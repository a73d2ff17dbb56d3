// A library must have a member.
namespace mlgo {
extern const int NothingFromTensorFlow = 0;
} // namespace mlgo
