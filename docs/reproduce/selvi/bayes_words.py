"""What the page of Table 2 says about the paper, about choices and about causes."""

HOW = """\
## How the paper did it

The text leaves open what becomes of noisy counts and deviations that are not positive, of
categories that a class never has, and of ties. The supplement to which the paper refers, the
authors' program at https://github.com/selvi-aras/DP-via-DRO (folder "ML Algorithms Julia"),
answers that, and this page follows it for all data sets:

* Sensitivities of means and deviations are *rounded up to whole units of the data*, and use the
  class counts of all records. The text has no rounding. A column like `education_num` of adult
  gets the sensitivity 1 where 0.14 would do.
* No standard deviation is below 1 unit and no count below 0.000001, with noise or without.
* A category that a class never has in training rules the class out. So does a density of a number
  that is 0 in double precision. If all classes are ruled out, the first one wins.
* The generator is seeded with the number of the draw, *the same for all splits*. Hence the paper's
  means have the error of 1,000 draws of the noise and not of 100,000, and its t-test over splits
  does not see that error. Here every split has draws of its own, and all noises are quantiles of
  the same uniform numbers, which changes no mean and makes differences more precise.

The program was read, not run, and nothing of it was copied. Its data files are not public; the
one preparation that is (cylinder-bands) leaves units alone.
"""

TRIED = """\
## Choices that were made by looking at the paper's numbers

What the program does not say was chosen by the columns GN, (GN), TLN and NB in sample, never by
OPT, with 4 to 40 splits of 50 to 300 draws:

* Units: powers of ten from 1 to 100,000, for *abalone* also 200 and 2,000, for *spambase* 5 and
  20, for *absent* 3 and 30. Kept: abalone and ecoli times 10,000, spambase times 1,000, absent
  times 10, all others as in the file.
* Order of classes: by first appearance, as the preparation of cylinder-bands has it; for
  *spambase* by value (with the other order GN is 61 % where 39.40 are printed, the share of spam).
  Both were also tried for ecoli, abalone and absent.
* *spect*: the 80 training records twice, and the last column of the file, F22, as the class, by NB.
  That is not the task that the name suggests, but 160 records are printed, and with the diagnosis
  as the class NB is at most 20.5 % in sample where 25.67 are printed. Some twenty choices of
  records were tried, and for the 80 records twice each of the 23 columns as the class.
* *dermatology*: two encodings of age and 21 pairs of numerical columns, by NB (kept: age as a
  category, the first two columns as numbers). *absent*: seven cuts of the hours (kept: above 2)
  and about 750 exchanges of numerical and categorical columns, by NB (none kept). *annealing*:
  columns with one value in more than 98 % of rows are left out, which leaves the paper's 18.
* (OPT): tables for ranges in steps of a quarter of the sensitivity. Coarser ones, which treat a
  range of 7.8 sensitivities as one of 6, were tried before; with them (OPT) was above OPT on adult,
  contraceptive, annealing and absent.
* Before the program was known, ten variants of least deviations and counts had been compared with
  the in-sample columns of nine data sets. None is used any more.

So agreement of the first three columns and of NB is in part agreement by choice.
"""

CAUSES = """\
* **OPT against TLN.** Both take 1 or 2 away from a count equally often, so that small counts gain
  nothing. On breast-cancer, which has nothing but counts, OPT and TLN are alike; elsewhere the gain
  comes from means and deviations.
* **Skewed noise.** Noise that is optimal for the pinball loss at 0.45 or 0.55 is 0.7 % above the
  optimum in mean size, which is within the 1 % to which the paper's noise is optimal; its program
  does not ask for symmetry. Such noise gains or loses as much as OPT does, or more. So the size of
  the paper's gains, and on most sets even their sign, does not follow from optimality to 1 %.
* **The text.** With sensitivities that are not rounded up, OPT gains as well, but other columns are
  off: TLN on contraceptive is 50.1 % (52.38 are printed), on ecoli 30.3 % (27.00).
* **GN.** With a least deviation of 0.001 instead of 1, GN on adult and contraceptive is the
  paper's. On dermatology, cylinder-bands and annealing it is not, where the rule of the program
  fits. We do not know why.
* **(OPT) against OPT.** The last table has mean changes in sensitivities, on the first split.
  Without numbers (breast-cancer, spect) both are the same noise. On adult and bank nearly all
  ranges are long and both are nearly the same. On contraceptive and annealing (OPT) changes
  deviations less, but by so little that errors are not lower.
"""
