// sum-of NUMBER...: their sum, from a GPU.
#include "sum.h"
#include <stdio.h>
#include <stdlib.h>
#include <vector>

int main(int count, char **words) {
    std::vector<double> numbers;
    for (int i = 1; i < count; ++i) numbers.push_back(atof(words[i]));
    char error[200];
    double sum = sum_on_gpu(numbers.size(), numbers.data(), error, sizeof error);
    int version = sum_toolkit();
    printf("toolkit %d.%d: ", version / 1000, version % 1000 / 10);
    // Without a GPU there is nothing to compute on, and nothing went wrong.
    if (error[0]) printf("no sum: %s\n", error);
    else printf("sum %g\n", sum);
}
