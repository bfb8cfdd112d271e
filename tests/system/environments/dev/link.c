/* One C program for each -dev package: HEADER, and the address of FUNCTION, which the linker must find. Nothing is
   called, so it runs without a GPU and a driver. */
#include HEADER

int main(void) {
  void *volatile found = (void *)FUNCTION;
  return !found;
}
